"""What checkpoints on some blocks give back, on the public VRT: time and peak for some budgets.

Run ``python benchmarks/selective_checkpoints.py --source VRT`` on a GPU machine, where VRT is a
clone of JingyunLiang/VRT. The network trains on random frames as `benchmarks/public/vrt.py` sets it
up, TF32 on, in one process: as published, with budgets of GPU memory, and without checkpoints.
"gain" is the share of what switching all of them off brings. ``--small`` is for a CPU.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from pitstop.parts.checkpoints import Checkpoints
from pitstop.tune.inside.script import Run
from pitstop.tune.plan import Plan, Wanted

sys.path.insert(0, str(Path(__file__).parent / "public"))
from vrt import LEARNING_RATE, build, charbonnier

GIB = 2**30
WARMUP, STEPS = 3, 5  # the first step measures, the second one is the first with the choice
BUDGETS_GIB = (50.0, 65.0)  # half of all that it takes, and half of what checkpoints free


class Row(NamedTuple):
    """One way."""

    way: str
    ms: float
    peak_gib: float
    loss: float


class Training:
    """The network, one batch, and a step."""

    def __init__(self, options: argparse.Namespace) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        frames, width, size, depth = (2, 24, 64, 2) if options.small else (6, 96, 192, 8)
        torch.manual_seed(0)
        self.model: nn.Module = build(options.source, (frames, size, size), depth, width)
        self.model = self.model.to(device).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE)
        self.blurred, self.sharp = torch.rand(2, 1, frames, 3, size, size, device=device).unbind()
        self.first = {name: each.clone() for name, each in self.model.state_dict().items()}

    def step(self) -> float:
        """Its loss."""
        self.optimizer.zero_grad()
        loss = charbonnier(self.model(self.blurred), self.sharp)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def start_over(self) -> None:
        """As if nothing had been learned."""
        self.model.load_state_dict(self.first)
        self.optimizer.state.clear()
        torch.manual_seed(0)


def measured(training: Training, way: str) -> Row:
    """A few steps."""
    training.start_over()
    for _ in range(WARMUP):
        training.step()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        loss = training.step()
        times.append(1e3 * (time.perf_counter() - begun))
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return Row(way, statistics.median(times), peak / GIB, loss)


def ways(options: argparse.Namespace) -> dict[str, Wanted | None]:
    """What is put on, one after the other."""
    found: dict[str, Wanted | None] = {"as published": None}
    for budget in options.budgets:
        found[f"at most {budget:g} GiB"] = Wanted("selective-checkpoints", {"peak_gib": budget})
    for keep in options.keep:
        found[f"keep {keep:g}"] = Wanted("selective-checkpoints", {"keep": keep})
    return found | {"no checkpoints": Wanted("checkpointing-off")}


def rows(options: argparse.Namespace) -> list[Row]:
    """All of them."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    training = Training(options)
    every = ways(options)
    changes = tuple(each for each in every.values() if each)
    run = Run(Plan(changes=changes, folder=tempfile.mkdtemp(), earnest=True))
    found = []
    for way, wanted in every.items():
        for script, change in zip(run._scripts, changes, strict=True):
            script.turn(change is wanted)
        found.append(measured(training, way))
        print(found[-1], flush=True)
    run.close()
    for each in _decisions():
        print(each)
    return found


def _decisions() -> list[str]:
    import gc  # noqa: PLC0415 only here

    every: list[Any] = gc.get_objects()
    return [str(each) for each in every if isinstance(each, Checkpoints)]


def table(found: list[Row]) -> str:
    """One line for each way."""
    first, last = found[0], found[-1]
    lines = [f"{'':20s} {'ms':>9s} {'peak GiB':>9s} {'gain':>6s} {'loss':>10s}"]
    for each in found:
        gain = (first.ms - each.ms) / (first.ms - last.ms)
        lines.append(
            f"{each.way:20s} {each.ms:9.1f} {each.peak_gib:9.1f} {gain:6.0%} {each.loss:10.6f}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, and print the table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, help="a clone of JingyunLiang/VRT")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--budgets", type=float, nargs="*", default=BUDGETS_GIB)
    parser.add_argument("--keep", type=float, nargs="*", default=())
    print(table(rows(parser.parse_args())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
