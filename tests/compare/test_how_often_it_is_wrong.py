"""Identical code passes 50 times of 50, and a planted regression is caught, whatever the noise."""

import math
import random

import pytest

from pitstop.compare import gates, pairs

TIMES = 50
GATE = gates.parse("step<=+3%")
# Step times of consecutive runs of one script on two crowded cores, as shares of their median.
CROWDED = (
    0.558, 0.592, 0.583, 0.533, 0.572, 0.564, 0.553, 0.558, 0.640, 0.622, 0.596,
    0.582, 1.416, 0.946, 0.776, 0.512, 0.761, 1.054, 3.358, 3.161, 1.220, 1.063,
    3.582, 3.410, 4.436, 6.145, 6.055, 6.475, 4.938, 3.311, 5.749, 2.676,
)  # fmt: skip


def heavy_tailed(spread, seed):
    """What happens to one run after the other: long tails, moods, a neighbour now and then."""
    drawn, mood = random.Random(seed), 0.0
    while True:
        mood = 0.5 * mood + math.sqrt(0.75) * drawn.gauss(0, 1)
        tail = drawn.gauss(0, 1) / math.sqrt(drawn.gammavariate(1.5, 2 / 3))
        neighbour = drawn.expovariate(2) if drawn.random() < 0.1 else 0.0
        yield math.exp(spread * (mood + tail) / math.sqrt(2) + neighbour)


def crowded(seed):
    """Stretches of what was recorded, in another order."""
    drawn = random.Random(seed)
    while True:
        start = drawn.randrange(len(CROWDED) - 4)
        yield from CROWDED[start : start + 4]


def gate(noise, slower):
    def judged(found):
        floor = pairs.noise(found.before, found.after)
        return gates.result(GATE, [pairs.verdict(found.before, found.after, floor)])

    found = pairs.measure(
        lambda: next(noise),
        lambda: next(noise) * (1 + slower),
        lambda found: judged(found) != "inconclusive",
    )
    return judged(found)


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.03, 0.07, 0.15])
def test_identical_code_passes_50_times_of_50(spread):
    results = [gate(heavy_tailed(spread, seed), 0.0) for seed in range(TIMES)]
    assert "fail" not in results
    if spread <= 0.01:
        assert results.count("pass") >= 45


def test_identical_code_passes_on_a_crowded_machine_too():
    assert "fail" not in [gate(crowded(seed), 0.0) for seed in range(TIMES)]


@pytest.mark.parametrize(("spread", "caught"), [(0.003, 49), (0.01, 48), (0.03, 40)])
def test_a_planted_tenth_is_caught(spread, caught):
    results = [gate(heavy_tailed(spread, seed), 0.10) for seed in range(TIMES)]
    assert results.count("fail") >= caught
    assert "pass" not in results


def test_a_tenth_less_is_no_regression():
    assert {gate(heavy_tailed(0.01, seed), -0.10) for seed in range(TIMES)} == {"pass"}
