"""Measure what this machine can do, and print it as JSON on the last line.

Run in a process of its own (``python -m pitstop.doctor.measure``), because a broken driver may
hang or kill it. Random data throughout: on zeros a GPU draws less power and clocks higher than
any real work lets it. Every number is the median of repeats after a warm-up.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from statistics import median
from typing import Any

import torch

from pitstop.core.machine import Limits

MARK = "pitstop-limits:"  # libraries print as well; only the line that starts so is ours
REPEATS = 5  # the median of five shrugs off two disturbed ones
PRODUCT_SECONDS = 0.1  # most for one matrix product: long against timer noise, short in all
TOO_LONG_SECONDS = 0.4  # a first run that takes this long, such as fp16 on an old CPU, must do
SMALLEST_SIDE, LARGEST_SIDE = 512, 8192  # of a matrix; 8192 saturates the largest GPUs
CPU_COPY_BYTES = 256 * 2**20  # with its copy more than the caches of nearly every CPU
GPU_COPY_BYTES = 2 * 2**30  # far above the 60 MB of cache of an H200
HOST_COPY_BYTES = 128 * 2**20  # large enough that the start of a transfer does not show
MEMORY_SHARE = 8  # a measurement takes at most one part in so many of the free memory
LAUNCHES = 2000  # per sample: some 10 ms at 5 us each
WARM_UP_SECONDS = 0.3  # an idle GPU takes about this long to raise its clocks
TENSOR_CORES_WITH_BF16 = (8, 0)  # the first capability with TF32 and bf16 matrix units

Clock = Callable[[Callable[[], object]], float]


def main() -> None:
    """Measure the CPU and the first GPU of each kind, and print one ``Limits`` for each."""
    found, doubt = [measure_cpu()], ""
    if torch.version.hip is None and torch.cuda.is_available():  # ROCm: untested, so unmeasured
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        for name in dict.fromkeys(names):
            try:
                found.append(measure_gpu(names.index(name)))
            except RuntimeError as error:  # such as a torch without code for this GPU
                doubt = f"limits: {name} could not be measured: {str(error).splitlines()[0]}"
    facts = {"limits": [asdict(each) for each in found], "doubt": doubt}
    sys.stdout.write(f"\n{MARK}{json.dumps(facts)}\n")


def measure_cpu() -> Limits:
    """Ceilings of the CPU with the threads torch uses by default."""
    cpu = torch.device("cpu")
    return Limits(
        device="cpu",
        copy_bytes_per_s=_copy_rate(cpu, CPU_COPY_BYTES, _wall_seconds),
        fp32_flops=_matrix_rate(cpu, torch.float32, _wall_seconds),
        bf16_flops=_matrix_rate(cpu, torch.bfloat16, _wall_seconds),
        fp16_flops=_matrix_rate(cpu, torch.float16, _wall_seconds),
        launch_us=_launch_us(cpu, lambda: None),
    )


def measure_gpu(index: int) -> Limits:
    """Ceilings of one NVIDIA GPU."""
    gpu = torch.device("cuda", index)
    torch.cuda.set_device(gpu)
    modern = torch.cuda.get_device_capability(gpu) >= TENSOR_CORES_WITH_BF16
    _warm_up(gpu)
    with fp32_matrix_precision("tf32") as set_tf32:
        tf32 = _matrix_rate(gpu, torch.float32, _event_seconds) if modern and set_tf32 else None
    with fp32_matrix_precision("ieee") as set_ieee:
        fp32 = _matrix_rate(gpu, torch.float32, _event_seconds) if set_ieee else None
    return Limits(
        device=f"cuda:{index}",
        copy_bytes_per_s=_copy_rate(gpu, _affordable(gpu, GPU_COPY_BYTES), _event_seconds),
        fp32_flops=fp32,
        tf32_flops=tf32,
        bf16_flops=_matrix_rate(gpu, torch.bfloat16, _event_seconds) if modern else None,
        fp16_flops=_matrix_rate(gpu, torch.float16, _event_seconds),
        launch_us=_launch_us(gpu, torch.cuda.synchronize),
        pinned_bytes_per_s=_host_rate(gpu, pinned=True),
        pageable_bytes_per_s=_host_rate(gpu, pinned=False),
    )


@contextmanager
def fp32_matrix_precision(precision: str) -> Iterator[bool]:
    """Set ``ieee`` or ``tf32`` through the API in force and restore it; yields whether it took.

    Since torch 2.9 there are two APIs, and reading one after writing the other raises.
    """
    matmul: Any = torch.backends.cuda.matmul
    for name, value in (("fp32_precision", precision), ("allow_tf32", precision == "tf32")):
        try:
            before = getattr(matmul, name)
            setattr(matmul, name, value)
        except (AttributeError, RuntimeError):
            continue
        try:
            yield True
        finally:
            setattr(matmul, name, before)
        return
    yield False


def _copy_rate(device: torch.device, size: int, clock: Clock) -> float:
    source = _random_bytes(size, device)
    target = torch.empty_like(source)
    seconds = median(_samples(lambda: target.copy_(source), clock))
    return 2 * size / seconds  # every byte is read and written


def _matrix_rate(device: torch.device, dtype: torch.dtype, clock: Clock) -> float | None:
    """Operations per second of a square matrix product, as large as the time allows."""
    most = LARGEST_SIDE
    if device.type == "cuda":
        most = min(most, int((_affordable(device, 2**40) / dtype.itemsize / 3) ** 0.5))
    side, rates = SMALLEST_SIDE, [0.0]
    with suppress(RuntimeError):  # out of memory, or no such product for this dtype and device
        while side <= most:
            seconds = _product_seconds(device, dtype, side, clock)
            rates.append(2 * side**3 / median(seconds))
            if 8 * min(seconds) > PRODUCT_SECONDS:  # twice the side is eight times the work
                break
            side *= 2
    return max(rates) or None


def _product_seconds(
    device: torch.device, dtype: torch.dtype, side: int, clock: Clock
) -> list[float]:
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(left)
    return _samples(lambda: torch.mm(left, right, out=product), clock)


def _launch_us(device: torch.device, finish: Callable[[], object]) -> float:
    """Cost of one tiny operation when many are queued and nothing waits for any of them."""
    tiny = torch.rand(1, device=device)

    def sample() -> float:
        finish()
        started = time.perf_counter()
        for _ in range(LAUNCHES):
            tiny.add_(1.0)
        finish()
        return time.perf_counter() - started

    sample()
    return median(sample() for _ in range(REPEATS)) / LAUNCHES * 1e6


def _host_rate(gpu: torch.device, *, pinned: bool) -> float | None:
    """Bytes per second from host to device."""
    try:
        source = _random_bytes(HOST_COPY_BYTES, torch.device("cpu"))
        source = source.pin_memory() if pinned else source
        target = torch.empty_like(source, device=gpu)
        seconds = median(
            _samples(lambda: target.copy_(source, non_blocking=pinned), _event_seconds)
        )
    except RuntimeError:  # a container may forbid locking that much memory
        return None
    return HOST_COPY_BYTES / seconds


def _warm_up(gpu: torch.device) -> None:
    left = torch.randn(2048, 2048, device=gpu)
    started = time.perf_counter()
    while time.perf_counter() - started < WARM_UP_SECONDS:
        left @ left
        torch.cuda.synchronize(gpu)


def _samples(work: Callable[[], object], clock: Clock) -> list[float]:
    first = clock(work)
    return [first] if first > TOO_LONG_SECONDS else [clock(work) for _ in range(REPEATS)]


def _wall_seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _event_seconds(work: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def _affordable(gpu: torch.device, wanted: int) -> int:
    free, _ = torch.cuda.mem_get_info(gpu)
    return min(wanted, int(free) // MEMORY_SHARE)


def _random_bytes(size: int, device: torch.device) -> torch.Tensor:
    """Random bytes: a block, repeated, for drawing them all takes longer than copying them."""
    block = torch.randint(0, 256, (2**20,), dtype=torch.uint8, device=device)
    return block.repeat(max(1, size // 2**20))[:size]


if __name__ == "__main__":
    main()
