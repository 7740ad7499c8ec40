import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.constant_rebuilt_each_step import constant_rebuilt_each_step


def built(name, at, micros=10.0, shapes="", function="grid", size=4 << 20):
    where = line(at, "flow.py", function)
    return operation(name, where, shapes, micros=micros, moved_bytes=size)


def row(ms, at, function="grid"):
    return Row("above", ms, "", line(at, "flow.py", function))


def test_names_the_first_line_of_the_function_that_builds():
    operations = built("arange", 28), built("zeros", 27), built("linspace", 29)
    run = recording(row(2, 27), row(1, 28), row(1, 29), operations=operations, device="cuda")
    (finding,) = constant_rebuilt_each_step(run)
    assert (finding.code, finding.span.line, finding.saving) == ("PIT205", 27, 0.04)
    assert finding.message == (
        "`grid` builds the same tensors out of numbers in every step: 4.00 ms of 100 ms."
    )


def test_counts_only_the_constant_part_of_a_line():
    operations = built("arange", 28, 10), built("embedding", 28, 30, "float32[9,9]@cpu")
    made = recording(row(8, 28), operations=operations, device="cuda")
    (finding,) = constant_rebuilt_each_step(made)
    assert finding.saving == pytest.approx(0.02)


def test_on_a_cpu_a_short_step_may_have_a_range():
    assert (
        constant_rebuilt_each_step(recording(row(4, 28), operations=(built("arange", 28),))) == []
    )
    assert (
        constant_rebuilt_each_step(recording(row(6, 28), operations=(built("arange", 28),))) != []
    )


def test_a_small_tensor_that_took_long_was_disturbed():
    run = recording(row(8, 28), operations=(built("arange", 28, 8000.0, size=64),))
    assert constant_rebuilt_each_step(run) == []


@pytest.mark.parametrize(
    ("operations", "ms"),
    [
        ((built("arange", 28),), 1.9),
        ((built("zeros", 28),), 5),  # sums may go there
        ((built("rand", 28),), 5),
        ((built("zeros", 28), built("arange", 28, function="other")), 5),
        ((built("add", 28, shapes="float32[9]@cpu"),), 5),
    ],
)
def test_quiet_where_it_is_cheap_or_no_constant(operations, ms):
    assert constant_rebuilt_each_step(recording(row(ms, 28), operations=operations)) == []


def test_quiet_without_evidence():
    assert constant_rebuilt_each_step(without_ledger(operations=(built("arange", 28),))) == []
    assert constant_rebuilt_each_step(recording()) == []
