"""How often is a gain seen in blocks of steps: a few long ones, or many short ones? By simulation.

    python benchmarks/blocks.py [--trials 400]

Each trial has 192 steps at most, half of them with a change. Looks are as in ``pitstop tune``: a
trial ends as soon as its blocks tell enough. *Seen* is how often the change was found faster,
*steps* how many were done until then.
"""

import argparse
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from pitstop.compare.pairs import Pairs
from pitstop.tune.looks import compared, tell_enough
from pitstop.tune.plan import is_on

STEPS = 192
PAIRS = (6, 12, 24)
GAINS = (0.0, 0.02, 0.04, 0.08)


@dataclass(frozen=True)
class Noise:
    """By which single steps differ, as shares."""

    name: str
    white: float  # from step to step
    wander: float = 0.0  # slowly
    slow: float = 30.0  # steps, over which it is forgotten
    spikes: float = 0.02  # share of the steps that take up to twice as long

    def steps(self, draws: random.Random) -> Iterator[float]:
        """The length of one step after the other."""
        kept = math.exp(-1 / self.slow)
        wander = draws.gauss(0.0, self.wander)
        while True:
            wander = kept * wander + math.sqrt(1 - kept**2) * draws.gauss(0.0, self.wander)
            spike = 1 + draws.random() if draws.random() < self.spikes else 1.0
            yield spike * math.exp(wander + draws.gauss(0.0, self.white))


NOISES = (
    Noise("5 %", 0.05),
    Noise("3 %, wandering 3 % over 30 steps", 0.03, 0.03),
    Noise("3 %, wandering 3 % over 8 steps", 0.03, 0.03, 8.0),
    Noise("2 %, wandering 5 % over 100 steps, no spikes", 0.02, 0.05, 100.0, 0.0),
    Noise("10 %, more spikes", 0.10, spikes=0.05),
)


def trial(noise: Noise, gain: float, pairs: int, draws: random.Random) -> tuple[bool, int]:
    """Whether a change that saves so much is found faster, and the steps that it took."""
    steps, length = noise.steps(draws), STEPS // (2 * pairs)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * pairs):
        on = is_on(number)
        took = fmean(next(steps) for _ in range(length))
        times[on].append((1 - gain if on else 1.0) * took)
        found = Pairs(tuple(times[False]), tuple(times[True]))
        if number % 2 and tell_enough(found):
            break
    return compared(found).verdict == "better", (number + 1) * length


def main() -> int:
    """A table for each kind of noise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=400, help="for each number")
    arguments = parser.parse_args()
    heads = (f"{pairs} pairs of {STEPS // pairs // 2}: seen, steps" for pairs in PAIRS)
    print(" | ".join(["noise", "gain", *heads]))
    for noise in NOISES:
        for gain in GAINS:
            row = [noise.name, f"{gain:.0%}"]
            for pairs in PAIRS:
                draws = random.Random(1)
                done = [trial(noise, gain, pairs, draws) for _ in range(arguments.trials)]
                seen = fmean(better for better, _ in done)
                row.append(f"{seen:.1%}, {fmean(steps for _, steps in done):.0f}")
            print(" | ".join(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
