"""How often is `pitstop prove` wrong about the time? Identical code, and a planted gain.

    python benchmarks/prove.py [--times 2000] [--gain 0.05]

Runs are simulated, with the noise of ``benchmarks/compare.py``: heavy tails, a state that lasts
over several runs, and now and then a run that a neighbour disturbs.
"""

import argparse
import math
import random
from collections import Counter

from compare import SPREADS, noise
from pitstop.compare import pairs

QUIET = 0.003  # the spread of an idle machine with one program on it


def simulated(random_numbers: random.Random, spread: float, gain: float) -> str:
    """One proof of simulated runs."""
    happens = noise(random_numbers, spread)

    def judged(found: pairs.Pairs[float]) -> str:
        floor = pairs.noise(found.before, found.after)
        return pairs.verdict(found.before, found.after, floor, strict=True).verdict

    found = pairs.measure(
        lambda: math.exp(next(happens)),
        lambda: math.exp(next(happens)) * (1 - gain),
        lambda found: judged(found) != "inconclusive",
    )
    return judged(found)


def main() -> None:
    """Print the share of each verdict for each spread."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--gain", type=float, default=0.05)
    arguments = parser.parse_args()
    print("spread  code        better   worse    same     inconclusive")
    for spread in (QUIET, *SPREADS):
        for name, gain in (("identical", 0.0), ("faster", arguments.gain)):
            random_numbers = random.Random(0)
            found = Counter(simulated(random_numbers, spread, gain) for _ in range(arguments.times))
            shares = (
                f"{found[each] / arguments.times:7.2%}"
                for each in ("better", "worse", "same", "inconclusive")
            )
            print(f"{spread:<6}  {name:<10}  {'  '.join(shares)}")


if __name__ == "__main__":
    main()
