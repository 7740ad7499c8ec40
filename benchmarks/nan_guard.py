"""What the NaN guard adds to a training step: blocks of steps without and with it, in pairs.

    python benchmarks/nan_guard.py [--device cuda] [--pairs 15] [--block 20]

One process, ABBA. Prints the step without it, and the middle of the pairs' ratios with their
middle half.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import torch
from torch import nn

from pitstop.parts import nan_guard


def steps(network: nn.Module, optimizer: Any, batch: torch.Tensor, count: int) -> float:
    """Milliseconds of one of so many steps."""
    wait: Callable[[], Any] = torch.cuda.synchronize if batch.is_cuda else lambda: None
    wait()
    begun = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad()
        network(batch).square().mean().backward()
        optimizer.step()
    wait()
    return (time.perf_counter() - begun) * 1e3 / count


def network(width: int, depth: int) -> nn.Module:
    """Convolutions with running statistics."""
    first = nn.Conv2d(3, width, 3, padding=1)
    blocks = [
        nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        for _ in range(depth)
    ]
    return nn.Sequential(
        first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--block", type=int, default=20)
    asked = parser.parse_args()
    gpu = asked.device == "cuda"
    for width, depth, batch, side in (
        [(256, 50, 64, 32)] if gpu else [(16, 4, 4, 16), (32, 4, 8, 32)]
    ):
        for kind in ("fused", "foreach") if gpu else ("fused", "for-loop"):
            model = network(width, depth).to(asked.device)
            optimizer = torch.optim.AdamW(model.parameters(), fused=kind == "fused")
            data = torch.rand(batch, 3, side, side, device=asked.device)
            steps(model, optimizer, data, asked.block)
            found: list[tuple[float, float]] = []
            for pair in range(asked.pairs):
                times = {}
                for on in (False, True) if pair % 2 else (True, False):
                    guard = nan_guard(model, optimizer) if on else None
                    times[on] = steps(model, optimizer, data, asked.block)
                    if guard:
                        guard.remove()
                found.append((times[False], times[True]))
            low, middle, high = quantiles([on / off for off, on in found], n=4)
            step_ms = median(off for off, _ in found)
            print(
                f"{kind:9} {step_ms:7.2f} ms  {len(list(model.parameters()))} tensors  "
                f"ratio {middle:.4f} ({low:.4f} to {high:.4f})"
            )


if __name__ == "__main__":
    main()
