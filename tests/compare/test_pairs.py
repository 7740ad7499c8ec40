"""The verdict on pairs: what the intervals are, when looking stops, and how often it is wrong."""

from math import comb, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.compare import pairs
from pitstop.compare.pairs import LOOKS, Noise, Pairs, Quality, interval, measure, noise, verdict

ALIKE = (100.0, 100.2, 99.9, 100.1, 99.8, 100.0)
QUIET = Noise()


def never(_):
    return False


def slower(by, values=ALIKE):
    return [by * value for value in values]


def test_runs_alternate_so_that_neighbours_make_a_pair():
    order = []
    found = measure(lambda: order.append("A"), lambda: order.append("B"), never, looks=(4,))
    assert "".join(order) == "ABBAABBA"
    assert len(found.before) == len(found.after) == 4


def test_nothing_is_asked_between_the_looks_and_the_last_ends_it():
    asked = []
    found = measure(float, float, lambda so_far: asked.append(len(so_far.before)))
    assert asked == list(LOOKS)
    assert len(found.before) == LOOKS[-1]


def test_looking_stops_when_all_is_settled():
    found = measure(float, float, lambda so_far: len(so_far.before) >= 12)
    assert len(found.after) == 12


def test_ctrl_c_keeps_the_whole_pairs():
    answers = iter([1.0, 2.0, 2.0, 1.0, 1.0])

    def run():
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    assert measure(run, run, never) == Pairs((1.0, 1.0), (2.0, 2.0), interrupted=True)


@pytest.mark.parametrize(("number", "ends"), [(6, (1, 6)), (12, (2, 11)), (24, (6, 19))])
def test_the_interval_leaves_out_the_outermost_few(number, ends):
    assert interval(list(range(1, number + 1))) == ends


def test_three_looks_together_are_wrong_less_than_once_in_twenty():
    wrong = 0.0
    for number in LOOKS:
        low, _ = interval(range(number))
        wrong += 2 * sum(comb(number, k) for k in range(low + 1)) / 2**number
    assert 0.04 < wrong < 0.05


def test_neighbours_of_one_kind_are_the_null():
    before = [100.0, 100.0, 103.0, 100.0, 100.0, 100.0]  # A beside A: 2nd and 3rd, 4th and 5th
    after = [200.0, 200.0, 200.0, 200.0, 204.0, 200.0]  # B beside B: 1st and 2nd, 3rd and 4th, ...
    assert noise(before, after).largest == pytest.approx(0.03)
    assert noise(before, after).usual == pytest.approx(0.0)  # 0, 3, 0, 0 and 2 %
    assert noise([100.0] * 6, after).largest == pytest.approx(0.02)
    strangers = noise([100.0, 101.0, 101.0, 150.0, 150.0, 1.0], [7.0] * 6)
    assert strangers == QUIET  # none are neighbours


def test_one_disturbed_run_of_twelve_does_not_make_the_noise():
    calm = [100.0] * 12
    assert noise(calm, [*calm[:6], 900.0, *calm[7:]]).largest == pytest.approx(0)


@pytest.mark.parametrize(
    ("before", "after", "quiet", "expected"),
    [
        (ALIKE, slower(1.1), 0.0, "worse"),
        (ALIKE, slower(0.9), 0.0, "better"),
        (ALIKE, slower(1.1), 0.2, "inconclusive"),  # identical runs differ by more
        (ALIKE, ALIKE, 0.0, "same"),
        (ALIKE, slower(1.005), 0.0, "same"),  # real, and worth nobody's time
        (ALIKE, slower(1.02), 0.05, "same"),
        (ALIKE, slower(1.04), 0.05, "inconclusive"),  # too far for "same", too near for noise
        (ALIKE, (90.0, 110.0, 95.0, 106.0, 99.0, 101.0), 0.1, "inconclusive"),
        (ALIKE[:5], slower(1.5, ALIKE[:5]), 0.0, "inconclusive"),
    ],
)
def test_verdicts(before, after, quiet, expected):
    found = verdict(before, after, Noise(quiet, quiet))
    assert found.verdict == expected
    assert found.reason


@pytest.mark.parametrize("pairs", [6, 5])
def test_both_sides_are_told_as_in_the_median_pair_so_that_they_fit_to_the_ratio(pairs):
    """The medians of each side, 835 and 590, are of minutes in which the machine differed."""
    before = [840.0, 850.0, 620.0, 830.0, 640.0, 860.0][:pairs]
    after = [600.0, 580.0, 560.0, 710.0, 570.0, 780.0][:pairs]
    found = verdict(before, after, Noise())
    assert found.after / found.before == pytest.approx(found.ratio)
    assert min(before) <= found.before <= max(before)


def test_a_slow_minute_does_not_hide_what_every_pair_shows():
    """Six pairs of a real run: two workers read its data while the machine slowed down."""
    before = [290.0, 416.0, 540.0, 398.0, 308.0, 430.0]
    after = [187.0, 240.0, 352.0, 236.0, 197.0, 237.0]
    heard = noise(before, after)
    assert (round(heard.largest, 2), round(heard.usual, 2)) == (0.49, 0.29)
    assert verdict(before, after, heard).verdict == "better"
    less = [0.97 * each for each in before]  # as steady, but far below what noise does
    found = verdict(before, less, noise(before, less))
    assert (found.verdict, found.high < 1) == ("inconclusive", True)


def test_half_as_long_is_as_far_as_twice_as_long():
    heard = Noise(0.7, 0.7)
    assert verdict(ALIKE, slower(0.5), heard).verdict == "better"
    assert verdict(ALIKE, slower(2.0), heard).verdict == "worse"


def test_five_pairs_have_a_ratio_but_no_interval():
    found = verdict(ALIKE[:5], slower(1.5, ALIKE[:5]), QUIET)
    assert (found.ratio, found.low, found.high) == (pytest.approx(1.5), None, None)
    assert found.reason == "6 pairs are the least that can tell"


def test_higher_may_be_better():
    quality = Quality("psnr", "", higher_is_better=True)
    assert verdict(ALIKE, slower(1.1), QUIET, quality).verdict == "better"


@pytest.mark.parametrize("values", [(0.0,) * 6, (-3.0,) * 6, (1.0, -1.0) * 3])
def test_values_without_a_logarithm_are_compared_by_their_size(values):
    assert verdict(values, values, QUIET).verdict == "same"
    lower = [each - 1 for each in values]
    found = verdict(values, lower, QUIET)
    assert (found.verdict, found.ratio < 1) == ("better", True)


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)), min_size=6, max_size=24),
    st.floats(0, 1),
)
def test_a_verdict_never_contradicts_its_numbers(values, quiet):
    before, after = zip(*values, strict=True)
    found = verdict(before, after, Noise(quiet, quiet))
    assert 0 < found.low <= found.ratio <= found.high < inf
    if found.verdict in {"better", "worse"}:
        assert (found.ratio > 1) == (found.verdict == "worse")
        assert found.low > 1 or found.high < 1
        assert max(found.ratio, 1 / found.ratio) - 1 > max(0.01, quiet)
    if found.verdict == "same":
        assert max(found.high - 1, 1 - found.low) <= pairs.COARSEST
