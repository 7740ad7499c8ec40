"""The last line of a run: what docs/results.md quotes."""

import statistics

import torch

SETTLING = 5  # first steps left out: kernels are chosen and caches filled


def summary(times: list[float], batch: int, device: torch.device) -> str:
    """Median step, samples a second and peak memory; n/a is what was not measured."""
    settled = times[SETTLING:]
    speed = "median step n/a, samples/s n/a"
    if settled:
        median = statistics.median(settled)
        speed = f"median step {median * 1000:.1f} ms, {batch / median:.2f} samples/s"
    peak = "n/a"
    if device.type == "cuda":
        peak = f"{torch.cuda.max_memory_allocated(device) / 2**30:.2f} GiB"
    return f"done: {speed} over {len(settled)} steps, peak GPU memory {peak}"
