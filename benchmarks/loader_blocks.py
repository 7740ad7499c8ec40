"""Whether workers that come and go between blocks of steps are as fast as in runs of their own.

    python benchmarks/loader_blocks.py

A batch takes 80 ms to read and a step some work; both only wait, so that two cores are enough for
any number of workers, and what each case should take is known. Blocks of one process and pairs of
fresh ones are held against that.
"""

import math
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from pitstop.compare.pairs import FEWEST
from pitstop.core.evidence import Evidence, Loader, Step
from pitstop.tune import budget
from pitstop.tune.budget import toggled_steps
from pitstop.tune.candidates import Candidate
from pitstop.tune.change import find_change
from pitstop.tune.processes import Course, Processes
from pitstop.tune.timed import mean_ms

READ_S = 0.08
# Own workers, those to try, and the seconds of work in a step.
CASES = (
    *((0, 2, 0.02), (0, 4, 0.02), (0, 8, 0.02), (1, 2, 0.02), (1, 4, 0.02), (2, 8, 0.02)),
    *((4, 2, 0.02), (0, 2, 0.16), (0, 8, 0.16)),
)
SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 2000
    def __getitem__(self, index): time.sleep(READ_S); return torch.ones(4)

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
workers, READ_S, WORK_S = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
for batch in DataLoader(Slow(), 1, num_workers=workers, persistent_workers=workers > 0):
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(WORK_S)
"""


def step_ms(workers: int, work_s: float) -> float:
    """What a step takes at least."""
    return 1e3 * (max(work_s, READ_S / workers) if workers else READ_S + work_s)


def seen(workers: int, work_s: float) -> Evidence:
    """What a first run would show."""
    total_ms = step_ms(workers, work_s)
    steps = (Step(total_ms, data_wait_ms=total_ms - 1e3 * work_s),) * FEWEST
    return Evidence(steps=steps, loaders=(Loader("Slow", workers, batches=FEWEST),))


def main() -> int:
    """One line for each case."""
    loader = find_change("loader")
    print(f"{'workers':>10} {'work':>6} {'known':>7} {'blocks':>20} {'fresh':>20}")
    with tempfile.TemporaryDirectory(prefix="pitstop-blocks-") as place:
        script = Path(place, "train.py")
        script.write_text(SCRIPT)
        for own, ours, work_s in CASES:
            bursts = partial(loader.when.bursts, seen(own, work_s))
            candidate = Candidate(loader, ({"workers": ours},), bursts=bursts)
            costs = budget.choose(3.0, step_ms(own, work_s) / 1e3, steps=40).settled(candidate)
            words = (sys.executable, str(script), *map(str, (own, READ_S, work_s)))
            track = Processes(
                Course(words, Path(place, "runs"), {"loader": loader}, costs, math.inf)
            )
            changes = tuple(candidate.wanted())
            blocks = track.blocks(changes, costs.toggle)
            in_blocks = [b / a for a, b in zip(blocks.before, blocks.after, strict=True)]
            fresh = [
                mean_ms(track.sample(changes)) / mean_ms(track.sample(()))
                for _ in range(FEWEST // 2)
            ]
            known, steps = step_ms(ours, work_s) / step_ms(own, work_s), toggled_steps(costs.toggle)
            said = f"{own:>4} to {ours:<2} {work_s:6} {known:7.3f} {_spread(in_blocks):>20}"
            print(f"{said} {_spread(fresh):>20}   {steps} steps of one process", flush=True)
    return 0


def _spread(ratios: list[float]) -> str:
    return f"{median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    sys.exit(main())
