"""What recording costs a step that is not inspected: epochs with and without hooks, alternating.

    python benchmarks/overhead.py [--pairs 15] [--device cpu|cuda] [--width 384] [--depth 12]
        [--batch 64] [--tool pitstop|gpuprof|traceml|torch.profiler]

Both halves of a pair run in one process, one right after the other, so that a noisy machine
disturbs them alike. Printed are the ratio of each pair's mean steps and their spread, and the
same as microseconds a step, which hardly depends on the size of the step. On a noisy machine the
spread is wide, and the median of many pairs is known well all the same: its interval is printed.
Other tools are measured likewise, those of `pip install gpuprof traceml-ai` too.
"""

import argparse
import contextlib
import functools
import importlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from pitstop.profile.hooks.hooks import install
from pitstop.profile.record.recorder import Recorder
from pitstop.profile.start.options import Options

STEPS = 40  # of each half; some 0.3 s, short against the machine's moods
FIRST = 24  # before these, not counted: the first batches of a run are looked at more closely


class Batches(Dataset[torch.Tensor]):
    """The same batch in every step: to make one takes no time."""

    def __init__(self, batch: torch.Tensor) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return FIRST + STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if index >= len(self):
            raise IndexError(index)
        return self._batch


class Loop:
    """A training loop whose step takes about as long as width and depth ask for."""

    def __init__(self, device: str, width: int, depth: int, batch: int) -> None:
        blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)]
        self.device = device
        self.model = nn.Sequential(*blocks).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        self.loader = DataLoader(Batches(torch.randn(batch, width)), batch_size=None)

    def mean_step_us(
        self, step: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> float:
        """Train for one epoch."""
        times, last = [], time.perf_counter()
        for batch in self.loader:
            with step():
                self.optimizer.zero_grad()
                self.model(batch.to(self.device)).square().mean().backward()
                self.optimizer.step()
            if self.device == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            times.append(1e6 * (now - last))
            last = now
        return statistics.fmean(times[FIRST:])


def pitstop(loop: Loop) -> float:
    """Train for one epoch while we record it."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Options(folder, inspect=0))
        undo = install(recorder)
        try:
            return loop.mean_step_us()
        finally:
            recorder.abandon()
            undo()


def gpuprof(loop: Loop) -> float:
    """Its context manager around the epoch."""
    with importlib.import_module("gpuprof").profile("epoch"):
        return loop.mean_step_us()


def traceml(loop: Loop) -> float:
    """Its context manager around each step; what it patches stays, and so may slow bare epochs."""
    tool = importlib.import_module("traceml_ai")
    tool.init(mode="auto")
    return loop.mean_step_us(lambda: tool.trace_step(loop.model))


def torch_profiler(loop: Loop) -> float:
    """The one of torch around the epoch, as it comes."""
    with torch.profiler.profile():
        return loop.mean_step_us()


TOOLS = {
    "pitstop": pitstop,
    "gpuprof": gpuprof,
    "traceml": traceml,
    "torch.profiler": torch_profiler,
}


def median_interval(values: list[float]) -> tuple[float, float]:
    """Where the true median lies, 95 times of 100, by the order of the values alone."""
    ordered, away = sorted(values), 0.98 * len(values) ** 0.5
    first = max(0, int(len(ordered) / 2 - away))
    return ordered[first], ordered[-1 - first]


def main() -> None:
    """Run the pairs and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tool", choices=TOOLS, default="pitstop")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    loop = Loop(arguments.device, arguments.width, arguments.depth, arguments.batch)
    loop.mean_step_us()  # warm-up
    tool = functools.partial(TOOLS[arguments.tool], loop)
    pairs = []
    try:
        tool()  # warm-up
    except ModuleNotFoundError as error:
        parser.error(f"--tool {arguments.tool}: {error}")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for number in range(arguments.pairs):
            halves: list[Callable[[], float]] = [loop.mean_step_us, tool]
            first, second = (half() for half in (halves if number % 2 else halves[::-1]))
            pairs.append((first, second) if number % 2 else (second, first))
    bare = statistics.median(each for each, _ in pairs)
    ratios = statistics.quantiles((recorded / each for each, recorded in pairs), n=4)
    extra = statistics.quantiles((recorded - each for each, recorded in pairs), n=4)
    low, high = median_interval([recorded / each for each, recorded in pairs])
    print(f"{arguments.tool}: step {bare / 1e3:.2f} ms bare, {len(pairs)} pairs of {STEPS} steps")
    print(
        f"ratio {ratios[1]:.4f} median (95 %: {low:.4f} to {high:.4f}), "
        f"{ratios[0]:.4f} to {ratios[2]:.4f} middle half"
    )
    print(f"extra {extra[1]:.0f} us a step median, {extra[0]:.0f} to {extra[2]:.0f} middle half")


if __name__ == "__main__":
    main()
