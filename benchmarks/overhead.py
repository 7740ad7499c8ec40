"""What recording costs: the same script bare and profiled, in adjacent pairs.

    python benchmarks/overhead.py [--pairs 12] [--steps 400] [--device cpu|cuda]

The script times its own steps, so start-up and our report are outside. Printed is the ratio of
the median step, profiled over bare, for each pair, and the median and quartiles of the ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import json, sys, time, torch
from torch import nn
device, width, depth, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.manual_seed(0)
torch.set_num_threads(1)
blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)]
model = nn.Sequential(*blocks).to(device)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
data = torch.utils.data.DataLoader(torch.randn(64 * steps, width), batch_size=64)
times, last = [], time.perf_counter()
for batch in data:
    optimizer.zero_grad()
    loss = model(batch.to(device)).square().mean()
    loss.backward()
    optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
    now = time.perf_counter()
    times.append(now - last)
    last = now
print(json.dumps(times[len(times) // 4:]))
"""


def main() -> None:
    """Run the pairs and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=12)
    arguments = parser.parse_args()
    size = [arguments.device, str(arguments.width), str(arguments.depth), str(arguments.steps)]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "loop.py"
        script.write_text(SCRIPT)
        bare = [sys.executable, str(script), *size]
        profiled = [
            sys.executable,
            "-m",
            "pitstop",
            "profile",
            "--inspect",
            "0",
            str(script),
            *size,
        ]
        ratios = []
        for pair in range(arguments.pairs):
            commands = [bare, profiled] if pair % 2 else [profiled, bare]
            steps = {command is profiled: step_ms(command, folder) for command in commands}
            ratios.append(steps[True] / steps[False])
            print(f"pair {pair}: {steps[False]:.3f} ms bare, ratio {ratios[-1]:.4f}", flush=True)
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"ratio {middle:.4f} median, {low:.4f} to {high:.4f} middle half, {len(ratios)} pairs")


def step_ms(command: list[str], folder: str) -> float:
    """Median step of one run, as the script itself measured it."""
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, check=True, env=os.environ
    )
    return float(1e3 * statistics.median(json.loads(done.stdout)))


if __name__ == "__main__":
    main()
