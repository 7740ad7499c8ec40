"""Does a profiled run go on at full speed? Bare and profiled runs of a script, alternating.

    python benchmarks/afterwards.py [--pairs 3] [--device cpu|cuda] [--depth 300]

The script is a training of many small operations, where whatever slows their launching shows. It
prints its own times: the median of the steps before any is inspected, and of those at the end.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 120
EARLY, LATE = slice(4, 8), slice(60, None)  # the inspected, timed and sampled ones lie between


def train(device: str, depth: int) -> None:
    """The script: print the times of its steps, in milliseconds."""
    import torch  # noqa: PLC0415 the process that only starts others is spared this
    from torch import nn  # noqa: PLC0415

    torch.set_num_threads(1)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.SiLU()) for _ in range(depth)]
    model = nn.Sequential(*blocks).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    batch, times = torch.randn(32, 64, device=device), []
    for _ in range(STEPS):
        begun = time.perf_counter()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    print(json.dumps(times))


def run(words: list[str], arguments: argparse.Namespace) -> tuple[float, float]:
    """Median early and late step of one run."""
    size = ["--child", "--device", arguments.device, "--depth", str(arguments.depth)]
    command = [sys.executable, *words, str(Path(__file__).resolve()), *size]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    line = next(line for line in ran.stdout.splitlines() if line.startswith("["))
    times = json.loads(line)
    return statistics.median(times[EARLY]), statistics.median(times[LATE])


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--depth", type=int, default=300)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        train(arguments.device, arguments.depth)
        return
    print("                 bare early   late    profiled early   late")
    for number in range(arguments.pairs):
        bare = run([], arguments)
        profiled = run(["-m", "pitstop", "profile"], arguments)
        print(
            f"pair {number + 1}, ms  {bare[0]:12.2f} {bare[1]:7.2f} {profiled[0]:15.2f} "
            f"{profiled[1]:7.2f}   late, profiled/bare {profiled[1] / bare[1]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
