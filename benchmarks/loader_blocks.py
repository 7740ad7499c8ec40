"""Whether workers that come and go between blocks of steps are as fast as in runs of their own.

    python benchmarks/loader_blocks.py

A batch takes 80 ms to read and a step 20 ms of work; both only wait, so that two cores are enough
for any number of workers, and what each case should take is known. Blocks of one process and
pairs of fresh ones are held against that.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from pitstop.compare.pairs import FEWEST
from pitstop.core.evidence import Evidence, Loader
from pitstop.tune import budget
from pitstop.tune.budget import toggled_steps
from pitstop.tune.candidates import Candidate
from pitstop.tune.change import find_change
from pitstop.tune.processes import Course, Processes
from pitstop.tune.timed import mean_ms

READ_S, WORK_S = 0.08, 0.02
CASES = ((0, 2), (0, 4), (0, 8), (1, 2), (1, 4), (2, 8), (4, 2))  # own workers, and those to try
SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 2000
    def __getitem__(self, index): time.sleep(READ_S); return torch.ones(4)

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
workers = int(sys.argv[1])
for batch in DataLoader(Slow(), 1, num_workers=workers, persistent_workers=workers > 0):
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(WORK_S)
"""


def step_ms(workers: int) -> float:
    """What a step takes at least."""
    if not workers:
        return 1e3 * (READ_S + WORK_S)
    return 1e3 * max(WORK_S, READ_S / workers)


def main() -> int:
    """One line for each case."""
    loader = find_change("loader")
    print(f"{'workers':>10} {'known':>7} {'blocks':>20} {'fresh':>20}")
    with tempfile.TemporaryDirectory(prefix="pitstop-blocks-") as place:
        script = Path(place, "train.py")
        script.write_text(f"READ_S, WORK_S = {READ_S}, {WORK_S}\n{SCRIPT}")
        for own, ours in CASES:
            evidence = Evidence(loaders=(Loader("Slow", own, batches=1),))
            bursts = lambda options, seen=evidence: loader.when.bursts(seen, options)  # noqa: E731
            candidate = Candidate(loader, ({"workers": ours},), bursts=bursts)
            costs = budget.choose(3.0, step_ms(own) / 1e3, steps=40).settled(candidate)
            words = (sys.executable, str(script), str(own))
            track = Processes(
                Course(words, Path(place, "runs"), {"loader": loader}, costs, time.monotonic())
            )
            changes = tuple(candidate.wanted())
            blocks = track.blocks(changes, costs.toggle)
            in_blocks = [b / a for a, b in zip(blocks.before, blocks.after, strict=True)]
            fresh = [
                mean_ms(track.sample(changes)) / mean_ms(track.sample(()))
                for _ in range(FEWEST // 2)
            ]
            known, steps = step_ms(ours) / step_ms(own), toggled_steps(costs.toggle)
            said = f"{own:>4} to {ours:<2} {known:7.3f} {_spread(in_blocks):>20}"
            print(f"{said} {_spread(fresh):>20}   {steps} steps of one process", flush=True)
    return 0


def _spread(ratios: list[float]) -> str:
    return f"{median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    sys.exit(main())
