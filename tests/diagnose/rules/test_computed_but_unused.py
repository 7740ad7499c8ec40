import pytest

from diagnose.builders import call, recording, without_ledger, work
from pitstop.core.evidence import Parameters
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.computed_but_unused import computed_but_unused

CALLS = (
    call("Model", 1),
    call("blocks.7", 17, 0, unused=True),
    call("blocks.7.conv", 3, 1, unused=True),
    call("blocks.8", 17, 0, unused=True),
)


def run(unused_us=10.0, rest_us=80.0, unused_ms=20.0):
    operations = (
        work(unused_us, 2, flops=5 * 10**9),
        work(unused_us, 3, flops=10**9),
        work(rest_us, 0),
    )
    return recording(Row("unused", unused_ms), calls=CALLS, operations=operations)


def trained(*idle, outside=(), kind="optimizer"):
    found = Parameters(1000, without_gradient=idle, outside_optimizer=outside)
    calls = call("Model", 1), call("cross.0", 2, 0), call("cross.1", 2, 0)
    return recording(calls=calls, parameters=found, step_kind=kind)


def test_names_the_line_of_the_outermost_calls():
    (finding,) = computed_but_unused(run())
    assert (finding.code, finding.span.line) == ("PIT602", 17)
    assert finding.saving == pytest.approx(0.20)
    assert finding.message == (
        "Nothing depends on the result of `blocks.*`: 2 calls a step, 20.0 ms of 100 ms, "
        "6.00 GFLOP."
    )


def test_promises_no_more_than_the_ledger_has():
    (finding,) = computed_but_unused(run(unused_ms=7.0))
    assert finding.saving == pytest.approx(0.07)


def test_quiet_where_the_call_is_as_good_as_free():
    assert computed_but_unused(run(unused_us=0.09, rest_us=99.82)) == []
    assert computed_but_unused(run(unused_us=0.4, rest_us=99.2))[0].severity == "note"
    assert computed_but_unused(run(unused_us=0.6, rest_us=98.8))[0].severity == "warning"


def test_names_modules_that_are_trained_and_never_called():
    idle = ("cross.0.out.0.weight", 30), ("cross.0.out.1.bias", 5), ("cross.1.out.0.weight", 35)
    (finding,) = computed_but_unused(trained(*idle))
    assert finding.item == "cross.*.out"
    assert finding.message == (
        "`cross.*.out` is handed to the optimizer, but never called: 70 numbers (7.0 % of all) "
        "without a gradient."
    )


@pytest.mark.parametrize(
    "run",
    [
        trained(("cross.0.out.weight", 9)),  # few
        trained(("cross.0.weight", 70)),  # called: perhaps under no_grad, perhaps another step's
        trained(("teacher.weight", 70), outside=(("teacher.weight", 70),)),
        trained(("cross.0.out.weight", 70), kind="loader"),  # nothing is trained
        recording(),
        without_ledger(calls=CALLS),
    ],
)
def test_quiet(run):
    assert computed_but_unused(run) == []


def test_a_line_that_another_call_needs_is_not_to_be_left_out_there():
    """Features of a target and of a prediction, of which the one is asked for too many."""
    outer = call("VGG", 60), call("VGG", 61)
    inner = call("VGG.slice5", 9, 0, unused=True), call("VGG.slice5", 9, 1)
    operations = work(20.0, 2), work(20.0, 3), work(60.0, 0)
    made = recording(Row("unused", 20.0), calls=(*outer, *inner), operations=operations)
    (finding,) = computed_but_unused(made)
    tries = "`leave-out` of tune tries it"
    wanted = f"leave the call out from what train.py:60 calls; others need it; {tries}"
    assert finding.cure == wanted
    alone = recording(Row("unused", 20.0), calls=(*outer, inner[0]), operations=operations)
    cure = computed_but_unused(alone)[0].cure
    assert cure.startswith("leave the call out where its result is not needed;")
