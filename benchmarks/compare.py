"""How often is `pitstop compare` wrong? Identical code, and a planted regression, many times.

    python benchmarks/compare.py [--times 1000] [--regression 0.10]     simulated noise, seconds
    python benchmarks/compare.py --real 50                              real scripts, hours

Simulated runs have heavy tails, a state that lasts over several runs, and now and then a run that
a neighbour disturbs. Real ones are a small training script; the regression is a loop that spins
for a tenth of each step. The gate is ``step<=+3%``: identical code must never fail it.
"""

import argparse
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pitstop.compare import gates, pairs

GATE = gates.parse("step<=+3%")
SPREADS = (0.01, 0.03, 0.07, 0.15)  # of single runs: an idle machine to a crowded one
SCRIPT = """
import sys, time
import torch
torch.manual_seed(0)
extra = float(sys.argv[1])
model = torch.nn.Sequential(*(torch.nn.Linear(384, 384) for _ in range(6)))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for _ in range(400):
    begun = time.perf_counter()
    optimizer.zero_grad()
    model(torch.randn(32, 384)).square().mean().backward()
    optimizer.step()
    end = time.perf_counter() + extra * (time.perf_counter() - begun)
    while time.perf_counter() < end:
        pass
"""


def noise(random_numbers: random.Random, spread: float) -> Iterator[float]:
    """Logarithms of what happens to one run after the other."""
    state = 0.0
    while True:
        state = 0.5 * state + math.sqrt(0.75) * random_numbers.gauss(0, 1)
        tail = random_numbers.gauss(0, 1) / math.sqrt(random_numbers.gammavariate(1.5, 2 / 3))
        disturbed = random_numbers.expovariate(2) if random_numbers.random() < 0.1 else 0.0
        yield spread * (state + tail) / math.sqrt(2) + disturbed


def simulated(random_numbers: random.Random, spread: float, slower: float) -> tuple[str, int]:
    """One comparison of simulated runs: how the gate decides, and after how many pairs."""
    happens = noise(random_numbers, spread)

    def judged(found: pairs.Pairs[float]) -> gates.Result:
        floor = pairs.noise(found.before, found.after)
        return gates.result(GATE, [pairs.verdict(found.before, found.after, floor)])

    found = pairs.measure(
        lambda: math.exp(next(happens)),
        lambda: math.exp(next(happens)) * (1 + slower),
        lambda found: judged(found) != "inconclusive",
    )
    return judged(found), len(found.before)


def simulate(times: int, regression: float) -> None:
    """Print how the gate decides for each spread."""
    print("spread  code        pass    inconclusive  fail    pairs")
    for spread in SPREADS:
        for name, slower in (("identical", 0.0), ("regression", regression)):
            random_numbers = random.Random(0)
            found = [simulated(random_numbers, spread, slower) for _ in range(times)]
            results = Counter(result for result, _ in found)
            shares = (f"{results[each] / times:6.2%}" for each in ("pass", "inconclusive", "fail"))
            mean = sum(number for _, number in found) / times
            print(f"{spread:<6}  {name:<10}  {'   '.join(shares)}  {mean:5.1f}")


def real(times: int, regression: float) -> None:
    """Print how `pitstop compare` exits on real scripts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loop.py").write_text(SCRIPT, encoding="utf-8")
        for name, slower in (("identical", 0.0), ("regression", regression)):
            codes: Counter[int] = Counter()
            for number in range(times):
                options = ["loop.py 0", f"loop.py {slower}", "--gate", GATE.text, "--strict"]
                done = subprocess.run(
                    [sys.executable, "-m", "pitstop", "compare", *options],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                codes[done.returncode] += 1
                print(
                    f"{name} {number + 1}: exit {done.returncode}", *_head(done.stdout), flush=True
                )
            print(f"{name}: {codes[0]} pass, {codes[3]} inconclusive, {codes[1]} fail of {times}")


def _head(report: str) -> list[str]:
    return [line.partition("  ")[2].strip() for line in report.splitlines()[:2]]


def main() -> None:
    """Simulate, or run real scripts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--regression", type=float, default=0.10)
    parser.add_argument("--real", type=int, metavar="TIMES")
    arguments = parser.parse_args()
    if arguments.real:
        real(arguments.real, arguments.regression)
    else:
        simulate(arguments.times, arguments.regression)


if __name__ == "__main__":
    main()
