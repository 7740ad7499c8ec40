"""What pairs of times mean for a change."""

from pitstop.compare.pairs import Pairs
from pitstop.core.comparison import Comparison
from pitstop.tune.looks import clear, clear_or_hopeless, compared
from pitstop.tune.weigh import helps, verdict_on

NEVER_FASTER = Pairs((100.0,) * 6, (99.5, 108.0, 101.0, 104.0, 99.4, 106.0))


def test_what_cannot_gain_one_percent_needs_no_more_pairs():
    assert compared(NEVER_FASTER).verdict == "inconclusive"
    assert clear(NEVER_FASTER)
    assert verdict_on(compared(NEVER_FASTER))[0] == "not-faster"


def test_what_might_still_gain_does():
    open_ = Pairs((100.0,) * 6, (90.0, 108.0, 101.0, 104.0, 92.0, 106.0))
    assert not clear(open_)
    assert verdict_on(compared(open_))[0] == "noisy"


def test_a_candidate_without_any_gain_by_then_is_given_up():
    slower = Pairs((100.0,) * 6, (90.0, 108.0, 101.0, 104.0, 92.0, 106.0))
    faster = Pairs((100.0,) * 6, (90.0, 108.0, 95.0, 94.0, 92.0, 96.0))
    assert clear_or_hopeless(slower)
    assert not clear_or_hopeless(faster)


def test_a_gain_far_below_the_noise_is_given_up_after_twelve_pairs():
    noise = (100.0, 120.0, 100.0, 120.0, 98.0, 121.0, 99.0, 118.0, 101.0, 119.0, 100.0, 122.0)
    small = Pairs(noise, tuple(reversed([0.99 * each for each in noise])))
    assert not clear(small)
    assert clear_or_hopeless(small)


def test_a_change_that_was_proved_stays_while_it_seems_to_gain():
    assert helps(Comparison("step", "inconclusive", 0.95))
    assert not helps(Comparison("step", "inconclusive", 0.995))
    assert not helps(Comparison("step", "same", 0.985))
    assert helps(Comparison("step", "better", 0.9))
