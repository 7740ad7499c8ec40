import pytest

from pitstop.core.evidence import Evidence, Step
from pitstop.core.timing import Timing
from pitstop.core.units import binary_bytes, milliseconds, minutes, percent, precise_percent, rate


def test_the_mean_leaves_the_warm_up_out():
    evidence = Evidence(steps=(Step(900.0), Step(100.0), Step(110.0)), warmup_steps=1)
    assert evidence.mean_ms("total_ms") == pytest.approx(105)


def test_a_run_without_a_steady_step_is_valid_and_has_no_mean():
    with pytest.raises(ValueError, match="none of them undisturbed"):
        Evidence(steps=(Step(900.0),), warmup_steps=1).mean_ms("total_ms")


def test_timing_needs_four_samples():
    with pytest.raises(ValueError, match="at least 4"):
        Timing((1.0, 2.0, 3.0))


def test_one_outlier_neither_moves_the_median_nor_makes_it_noisy():
    timing = Timing((10.0, 10.1, 10.0, 10.1, 10.0, 10.1, 10.0, 50.0))
    assert timing.median_ms == pytest.approx(10.05)
    assert not timing.noisy


def test_a_wide_spread_is_noisy():
    assert Timing((10.0, 14.0, 10.0, 14.0)).noisy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.4), "40 %"),
        (percent(0.078), "7.8 %"),
        (percent(0), "0 %"),
        (percent(-0.31), "-31 %"),
        (binary_bytes(64 * 2**20), "64.0 MiB"),
        (binary_bytes(12), "12 B"),
        (binary_bytes(3 * 2**40), "3.0 TiB"),
        (milliseconds(0.0412), "41.2 µs"),
        (milliseconds(1234), "1.23 s"),
        (milliseconds(410), "410 ms"),
        (milliseconds(0), "0 ms"),
        (milliseconds(0.0000005), "0.50 ns"),
        (rate(4.3e12, "B/s"), "4.30 TB/s"),
        (rate(790e12, "FLOP/s"), "790 TFLOP/s"),
        (rate(12, "B/s"), "12.0 B/s"),
    ],
)
def test_numbers_are_written_for_people(text, expected):
    assert text == expected


def test_what_one_waits_for():
    found = [minutes(seconds) for seconds in (0, 75, 130, 596, 600, 1230)]
    assert found == ["0 s", "75 s", "2.2 minutes", "9.9 minutes", "10 minutes", "20 minutes"]


def test_small_shares_that_differ_are_said_to():
    assert precise_percent(0.0000031) == "0.00031 %"
    assert precise_percent(-7e-9) == "-0.00000070 %"
    assert precise_percent(1.28e-5) != precise_percent(1.18e-5)
    assert precise_percent(0.012) == percent(0.012) == "1.2 %"
