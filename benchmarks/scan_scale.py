"""Scale: time and memory per file of `pitstop scan` over 500 and over 10,000 generated files.

Usage: python benchmarks/scan_scale.py [--files 500 10000] [--jobs 2]

Memory is the largest sum over the command and its processes (proportional set size where the system
tells it), beyond what scanning one file takes.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.1
MODULE = '''
"""Part {number} of a generated project."""

import torch
from torch import nn

from package_{folder}.part_{before} import Block{before}, measure_{before}
{lines}

class Block{number}(nn.Module):
    def __init__(self, width, depth={number}):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.inner = Block{before}(width)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = torch.relu(layer(x))
        if mask is not None:
            x = x * torch.ones(x.shape).to(x.device)
        return self.inner(x) + self.scale_{number}(x)

    def scale_{number}(self, x):
        return x * x.abs().mean().item()


def measure_{number}(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        loss = model(batch["image"].cuda()).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total + measure_{before}(model, loader, optimizer)
'''


@dataclass(frozen=True, slots=True)
class Cost:
    """What one scan took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def write_project(folder: Path, files: int) -> None:
    """Files that import from and call each other, a hundred to a folder."""
    for number in range(files):
        package = folder / f"package_{number // 100}"
        package.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(f"limit_{index} = {index} * {number}" for index in range(number % 40))
        text = MODULE.format(
            number=number, before=max(number - 1, 0), folder=max(number - 1, 0) // 100, lines=lines
        )
        (package / f"part_{number}.py").write_text(text)


def scan(folder: Path, jobs: int) -> Cost:
    """Run the command once, without its cache."""
    command = [sys.executable, "-m", "pitstop", "scan", ".", "--no-cache", "--exit-zero"]
    command += ["--jobs", str(jobs), "--output", "found.json"]
    started = time.perf_counter()
    process = psutil.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    peak, spent = 0, {}
    while process.poll() is None:
        now = 0
        for each in [process, *_children(process)]:
            try:
                memory = each.memory_full_info()
                times = each.cpu_times()
            except psutil.Error:
                continue
            now += getattr(memory, "pss", memory.rss)
            spent[each.pid] = times.user + times.system
        peak = max(peak, now)
        time.sleep(LOOK_EVERY_S)
    if process.returncode:
        raise SystemExit(f"the scan ended with {process.returncode}")
    return Cost(time.perf_counter() - started, sum(spent.values()), peak)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def main() -> None:
    """Print a row for each size, and how the largest compares with the smallest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[500, 10_000])
    parser.add_argument("--jobs", type=int, default=2)
    wanted = parser.parse_args()
    costs = {}
    with tempfile.TemporaryDirectory(prefix="pitstop-scale-") as folder:
        for files in (1, *sorted(wanted.files)):
            project = Path(folder) / str(files)
            write_project(project, files)
            costs[files] = scan(project, wanted.jobs)
    alone = costs.pop(1)
    print("files   wall s   CPU ms/file   peak MB   KB/file beyond one file's scan")
    for files, cost in costs.items():
        per_file = (cost.peak_bytes - alone.peak_bytes) / files / 1e3
        print(
            f"{files:>6}  {cost.wall_s:>6.1f}  {cost.cpu_s / files * 1e3:>11.1f}"
            f"  {cost.peak_bytes / 1e6:>8.0f}  {per_file:>8.0f}"
        )
    small, large = min(costs), max(costs)
    time_ratio = (costs[large].cpu_s / large) / (costs[small].cpu_s / small)
    memory_ratio = (costs[large].peak_bytes / large) / (costs[small].peak_bytes / small)
    ratios = f"time per file x{time_ratio:.2f}, memory x{memory_ratio:.2f}"
    print(f"{large} files against {small}: {ratios}")


if __name__ == "__main__":
    main()
