"""Whether what `pitstop profile --quick` says of a perfect loader is true.

    python benchmarks/headspace.py [--steps 24] [NAME ...]

A workload runs three times in turn: under `pitstop profile --quick`, which says so, and
before and after that with every DataLoader replaced by a list of its first batches. Printed are
both times of a step, and their ratio; the two runs of the list tell how much the machine varies.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

NAMES = ("frame_interpolation", "spike_deblur")
KEPT = 4
TRUTH = """
import itertools, runpy, sys, time
import torch
from torch.utils.data import DataLoader
from torch.optim.optimizer import register_optimizer_step_post_hook
kept, limit, per_step = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
begin, lists, ended = DataLoader.__iter__, {}, []
def from_list(loader):
    if loader not in lists:
        source = begin(loader)
        lists[loader] = list(itertools.islice(source, kept))
        del source
    return itertools.islice(itertools.cycle(lists[loader]), len(loader))
DataLoader.__iter__ = from_list
count = itertools.count(1)
def stepped(*_):
    if next(count) % per_step == 0:
        ended.append(time.monotonic())
        if len(ended) > limit:
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            steps = sorted(b - a for a, b in zip(ended[5:], ended[6:]))
            print("TRUTH", 1e3 * steps[len(steps) // 2], flush=True)
            sys.exit()
register_optimizer_step_post_hook(stepped)
sys.argv = sys.argv[4:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
PER_STEP = {"frame_interpolation": 2}  # optimizers that step in turn


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--full", action="store_true", help="not the small size")
    options = parser.parse_args()
    size = [] if options.full else ["--small"]
    for name in options.names:
        words = [f"pitstop.workloads.{name}.slow", *size, "--steps", "400"]
        with tempfile.TemporaryDirectory() as folder:
            before = truth(words, options.steps, PER_STEP.get(name, 1), folder)
            said, now_ms = told(words, folder)
            after = truth(words, options.steps, PER_STEP.get(name, 1), folder)
        true_ms = median((before, after))
        print(f"{name}: a step now {now_ms:.1f} ms; said {said:.1f} ms, true {true_ms:.1f} ms "
              f"({before:.1f} and {after:.1f}): ratio {said / true_ms:.3f}")  # fmt: skip


def truth(words: list[str], steps: int, per_step: int, folder: str) -> float:
    """The median step of a run whose batches come from a list."""
    command = [sys.executable, "-c", TRUTH, str(KEPT), str(steps), str(per_step), *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("TRUTH")]
    if not lines:
        sys.exit(ran.stderr[-2000:])
    return float(lines[0].split()[1])


def told(words: list[str], folder: str) -> tuple[float, float]:
    """What the profile says, and the step as it is."""
    command = [sys.executable, "-m", "pitstop", "profile", "--quick", "-m", *words]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    shown = [sys.executable, "-m", "pitstop", "report", "last", "--format", "json"]
    ran = subprocess.run(shown, cwd=folder, capture_output=True, text=True, check=False)
    report = json.loads(ran.stdout)
    found = next(Path(folder).glob(".pitstop/runs/*/headspace.json"), None)
    if found is None:
        sys.exit("nothing was said")
    return json.loads(found.read_text())["step_ms"], report["ledger"]["step_ms"]


if __name__ == "__main__":
    main()
