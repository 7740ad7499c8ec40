import pytest

from pitstop.compare.drift import loss_drift
from pitstop.core.evidence import Evidence, Step

FALLING = (1.0, 0.5, 0.25)


def run(losses=FALLING, **options):
    steps = [
        Step(10.0, loss=loss, loss_finite=loss is not None)
        for loss in losses  # None: not finite
    ]
    return Evidence(steps=tuple(steps), **options)


def test_equal_losses_are_the_same_to_the_last_digit():
    found = loss_drift([run()] * 6, [run()] * 6)
    assert (found.verdict, found.ratio, found.high) == ("same", 1.0, 1.0)
    assert "last digit" in found.reason


def test_the_last_digit_counts():
    found = loss_drift([run()], [run((1.0, 0.5, 0.25 + 1e-9))])
    assert (found.verdict, found.ratio > 1) == ("same", True)
    assert "last digit" not in found.reason


def test_another_training_is_neither_better_nor_worse():
    found = loss_drift([run()] * 6, [run((1.0, 0.4, 0.2))] * 6)
    assert found.verdict == "inconclusive"
    assert found.low == found.high == pytest.approx(1.2)
    assert "--metric" in found.reason


def test_the_loss_of_a_generator_counts_beside_that_of_its_opponent():
    a, b = (Evidence(steps=(Step(10.0, loss=0.0, earlier_losses=(x,)),)) for x in (1.0, 1.25))
    assert loss_drift([a], [a]).verdict == "same"
    assert loss_drift([a] * 6, [b] * 6).high == pytest.approx(1.2)


def test_what_runs_of_one_command_do_too_is_no_drift():
    unseeded = [run((1.0, 0.5 + 0.01 * number)) for number in range(6)]
    found = loss_drift(unseeded, unseeded[::-1])
    assert (found.verdict, found.low) == ("inconclusive", 1.0)
    assert "seed" in found.reason


def test_a_loss_that_is_lost_is_worse():
    found = loss_drift([run()], [run((1.0, 0.5, None))])
    assert found.verdict == "worse"
    assert found.reason == "not finite in B at step 3"


def test_a_loss_that_neither_has_is_no_news():
    broken = run((1.0, 0.5, None))
    assert loss_drift([broken], [broken]).verdict == "same"


def test_runs_that_left_steps_out_are_not_lined_up():
    found = loss_drift([run()], [run(left_out_slices=256)])
    assert (found.verdict, found.ratio) == ("inconclusive", None)


def test_no_losses_no_comparison():
    assert loss_drift([Evidence(steps=(Step(1.0),))], [run()]) is None
