"""What a fused norm costs to launch: CPU and GPU time of one call, beside PyTorch's own.

Run ``python benchmarks/launch_cost.py`` on a GPU machine: it compares with the twin in fp64 first,
then times the shapes of a Stable Diffusion 1.5 U-Net at 64 x 64 and prints a table. "cpu us" is
the CPU time of a call whose kernels nobody waits for, "gpu us" the device's time with launches
queued ahead. Without a GPU the launch is left out, and only the CPU time before it is measured.
"""

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from pitstop.parts import group_norm_silu
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu_twin
from pitstop.parts.launch import Launch

GROUPS = 32
SHAPES = ((320, 64), (960, 64), (640, 32), (1920, 32), (1280, 16), (2560, 16), (1280, 8))
BATCH = 2  # the picture with and without its prompt
CALLS = 100  # in a row: fewer than a CUDA queue holds
ROUNDS = 15
QUEUE_CYCLES = 20_000_000  # about 10 ms of device sleep, during which the CPU queues the launches
WITHIN_US = 3.0  # what a fused call may cost more than F.group_norm
LIMIT = 2e-3  # relative error of half precision
ALWAYS = 1 << 40  # elements
Run = Callable[[], object]


class Row(NamedTuple):
    """One shape and one way to compute it."""

    shape: str
    way: str
    cpu_us: float
    gpu_us: float | None


def cpu_us(run: Run) -> float:
    """CPU time of this thread for one call, the best of some rounds: others only add to it."""
    samples = []
    for _ in range(ROUNDS):
        wait()
        start = time.thread_time()
        for _ in range(CALLS):
            run()
        samples.append(1e6 * (time.thread_time() - start) / CALLS)
    return min(samples)


def gpu_us(run: Run) -> float | None:
    """Device time of one call in a row of them."""
    if not torch.cuda.is_available():
        return None
    samples = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(QUEUE_CYCLES)
        start.record()
        for _ in range(CALLS):
            run()
        end.record()
        end.synchronize()
        samples.append(1e3 * float(start.elapsed_time(end)) / CALLS)
    return statistics.median(samples)


def wait() -> None:
    """Let the device finish."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextmanager
def forced(planes: int, rows: int) -> Iterator[None]:
    """Groups of so many elements take one launch, larger ones three."""
    launching = importlib.import_module("pitstop.parts.group_norm.launch")
    small: Any = importlib.import_module("pitstop.parts.group_norm.whole")
    before = small.PLANES_LIMIT, small.ROWS_LIMIT
    small.PLANES_LIMIT, small.ROWS_LIMIT = planes, rows
    launching._forward.cache_clear()
    try:
        yield
    finally:
        small.PLANES_LIMIT, small.ROWS_LIMIT = before
        launching._forward.cache_clear()


def inputs(channels: int, side: int, rows: bool) -> tuple[torch.Tensor, ...]:
    """A picture of features in half precision, weight and bias."""
    device, dtype = "cuda", torch.float16
    if not torch.cuda.is_available():  # the CPU's own kernel must not count
        device, dtype, channels, side = "cpu", torch.float32, GROUPS, 2
    x = torch.randn(BATCH, channels, side, side, device=device, dtype=dtype)
    x = x.contiguous(memory_format=torch.channels_last) if rows else x
    weight, bias = torch.randn(2, channels, device=device, dtype=dtype).unbind()
    return x, weight, bias


def check(tensors: tuple[torch.Tensor, ...], name: str) -> None:
    """Raise where a kernel is off."""
    x, weight, bias = tensors
    found = group_norm_silu(x, GROUPS, weight, bias).double()
    exact = group_norm_silu_twin(*(x.double(), GROUPS, weight.double(), bias.double()))
    off = float((found - exact).norm() / exact.norm())
    assert off < LIMIT, f"{name}: off by {off:.1e}"


def rows_of(channels: int, side: int, channels_last: bool) -> Iterator[Row]:
    """All ways to compute one shape."""
    x, weight, bias = inputs(channels, side, channels_last)
    shape = f"{BATCH} x {channels} x {side} x {side} {'NHWC' if channels_last else 'NCHW'}"
    ours: Run = partial(group_norm_silu, x, GROUPS, weight, bias)
    norm: Run = partial(group_norm_silu, x, GROUPS, weight, bias, silu=False)

    def row(way: str, run: Run) -> Row:
        for _ in range(3):
            run()
        return Row(shape, way, cpu_us(run), gpu_us(run))

    with torch.no_grad():
        yield row("F.group_norm", lambda: F.group_norm(x, GROUPS, weight, bias))
        yield row("F.group_norm, F.silu", lambda: F.silu(F.group_norm(x, GROUPS, weight, bias)))
        yield row("ours, norm alone", norm)
        yield row("ours", ours)
        for way, limit in (("ours, one launch", ALWAYS), ("ours, three launches", 0)):
            with forced(limit, limit):
                if torch.cuda.is_available():
                    check((x, weight, bias), f"{shape} {way}")
                yield row(way, ours)
    leaf = x.detach().requires_grad_()
    yield row("training: F.group_norm, F.silu", lambda: F.silu(F.group_norm(leaf, GROUPS, weight)))
    yield row("training: ours", lambda: group_norm_silu(leaf, GROUPS, weight))


def leave_out_launches() -> None:
    """Without a GPU: everything up to the launch, and no kernel."""
    part: Any = sys.modules["pitstop.parts.group_norm.group_norm_silu"]
    part._kernel_runs = lambda _: True
    kind: Any = Launch
    kind.__call__ = lambda *_: None


def table(rows: list[Row]) -> str:
    """One line for each; last, how much more a norm costs to launch than PyTorch's, at most."""
    lines = [f"{'':28s} {'way':32s} {'cpu us':>8s} {'gpu us':>8s}"]
    for each in rows:
        gpu = "n/a" if each.gpu_us is None else f"{each.gpu_us:.1f}"
        lines.append(f"{each.shape:28s} {each.way:32s} {each.cpu_us:8.1f} {gpu:>8s}")
    stock = {each.shape: each.cpu_us for each in rows if each.way == "F.group_norm"}
    more = [each.cpu_us - stock[each.shape] for each in rows if each.way == "ours, norm alone"]
    lines.append(
        f"one norm more than F.group_norm: median {statistics.median(more):+.1f} us, "
        f"most {max(more):+.1f} us of CPU (wanted: at most {WITHIN_US:+.1f})"
    )
    return "\n".join(lines)


def main() -> int:
    """Measure and print the table last."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    if torch.cuda.is_available():
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    else:
        leave_out_launches()
        print(
            "no GPU: launches are left out; F.group_norm is timed with its kernel for a few pixels"
        )
    shapes = SHAPES if torch.cuda.is_available() else SHAPES[:1]
    rows = [row for shape in shapes for last in (False, True) for row in rows_of(*shape, last)]
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
