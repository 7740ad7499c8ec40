from dataclasses import replace

import pytest

from diagnose.builders import line, recording, steps, without_ledger
from pitstop.core.evidence import NonFinite, Optimizer
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


@pytest.mark.parametrize(
    ("phase", "detail", "words"),
    [
        ("forward", "3 of 4 numbers of `x` are not finite", "`log` gives the first result that is "
         "not finite: 3 of 4 numbers of `x` are not finite"),
        ("forward", "by a number that is zero", "`log` by a number that is zero gives the first "
         "result that is not finite"),
        ("input", "2 of 9 numbers of `clip` are not finite", "the batch that comes in already is "
         "not finite: 2 of 9 numbers of `clip` are not finite"),
        ("weights", "the loss had grown from 1 to 1e+09", "weights are not finite after the step "
         "before: the loss had grown from 1 to 1e+09"),
    ],
)  # fmt: skip
def test_the_sentence_is_whole_whatever_the_detail(phase, detail, words):
    (finding,) = non_finite(run(NonFinite(5, phase, operation="log", detail=detail)))
    assert finding.message == f"Step 5: {words}."


def test_a_step_that_was_known_too_late_is_the_first_whose_loss_is_bad():
    (finding,) = non_finite(run(NonFinite(0, "forward", line(17), operation="log"), bad_from=12))
    assert finding.message.startswith("Step 12: `log` gives")


def test_weights_are_the_optimizers_work():
    taken = Optimizer("SGD", made=line(8))
    made = recording(steps=steps(9), non_finite=NonFinite(5, "weights"), optimizers=(taken,))
    (finding,) = non_finite(made)
    assert finding.span.line == 8


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


def test_a_line_that_writes_a_nan_into_weights_is_named_and_not_the_optimizer():
    words = "a line of the script writes a NaN into one of them"
    bad = NonFinite(5, "weights", line(33), detail=words)
    made = without_ledger(non_finite=bad, optimizers=(Optimizer("Adam", made=line(4)),))
    (finding,) = non_finite(made)
    assert finding.span.line == 33
    assert finding.message == f"Step 5: weights are not finite: {words}."


def test_large_weights_are_not_called_infinite():
    bad = NonFinite(5, "weights", line(33), detail="weights as large as 1.4e+10")
    made = without_ledger(non_finite=bad, optimizers=(Optimizer("Adam", made=line(4)),))
    (finding,) = non_finite(made)
    assert finding.span.line == 4
    assert finding.message == "Step 5: the step before left weights as large as 1.4e+10."
