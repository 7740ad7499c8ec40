from dataclasses import replace

import pytest

from diagnose.builders import line, recording, steps
from pitstop.core.evidence import NonFinite
from pitstop.diagnose.rules.non_finite import non_finite

LOG = NonFinite(31, "forward", line(17), "head", "log", "of 3 numbers that are zero or less")


def run(found=None, bad_from=None, **fields):
    taken = steps(40, **fields)
    if bad_from:
        bad = replace(taken[0], loss_finite=False)
        taken = (*taken[: bad_from - 1], *[bad] * (41 - bad_from))
    return recording(steps=taken, non_finite=found)


def test_names_the_step_the_operation_and_its_line():
    (finding,) = non_finite(run(LOG, 31))
    assert (finding.code, finding.severity, finding.span.line) == ("PIT701", "error", 17)
    assert finding.message == (
        "Step 31: `log` of 3 numbers that are zero or less in `head` gives the first result that "
        "is not finite."
    )


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("input", "the batch that comes in already is not finite"),
        ("backward", "the gradient of `sqrt` is the first that is not finite"),
        ("weights", "weights are not finite after the step before"),
        ("", "a number is not finite"),
    ],
)
def test_tells_input_backward_and_weights_apart(phase, words):
    (finding,) = non_finite(run(NonFinite(5, phase, operation="sqrt")))
    assert finding.message == f"Step 5: {words}."


def test_without_an_origin_the_first_bad_step_is_told():
    (finding,) = non_finite(run(bad_from=31))
    assert finding.message == "The loss is not finite from step 31 of 40 on."
    assert finding.span is None


def test_a_gradient_that_overflows_under_a_scaler_is_its_daily_work():
    overflow = NonFinite(5, "backward", line(17))
    assert non_finite(run(overflow, scale=65536.0)) == []
    assert non_finite(run(overflow, bad_from=9, scale=65536.0)) != []
    assert non_finite(run(overflow)) != []


def test_quiet_where_all_is_finite():
    assert non_finite(run()) == []
