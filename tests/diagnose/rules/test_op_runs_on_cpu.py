from dataclasses import replace

import pytest

from diagnose.builders import line, operation, recording, sampled, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.op_runs_on_cpu import op_runs_on_cpu

ADDS = operation("add_", line(20), "float32[9,9]@cpu float32[9,9]@cpu", micros=6000)
IDLE = Row("python", 8, "", line(20))


def test_names_the_line_whose_operation_leaves_the_gpu_idle():
    (finding,) = op_runs_on_cpu(recording(IDLE, device="cuda", operations=(ADDS,)))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT209", 20, 0.06)
    assert finding.message == "`add_` runs on the CPU while the GPU idles for 6.00 ms of 100 ms."


def test_one_operation_at_several_lines_of_a_function_is_one_finding():
    lines = [replace(ADDS, where=line(number)) for number in (20, 22)]
    rows = [Row("python", 2, "", each.where) for each in lines]
    (finding,) = op_runs_on_cpu(recording(*rows, device="cuda", operations=(lines[1], lines[0])))
    assert finding.saving == pytest.approx(0.04)  # and neither of them alone
    assert (finding.span.line, finding.span.end_line) == (20, 22)
    assert finding.message.startswith("`add_` runs on the CPU (train.py:20, 22) while the GPU")


@pytest.mark.parametrize(
    ("at_the_line", "moving", "saving"),
    [
        (30, 0, 0.06),  # a tenth of the step: more than the work itself took
        (15, 0, 0.05),
        (15, 2, 0.03),  # the copy of its result is told by another rule
        (0, 0, None),  # only the inspected step was slow there
    ],
)
def test_it_explains_no_more_than_was_spent_at_the_line(at_the_line, moving, saving):
    seen = tuple(
        each for each in (sampled(line(20), at_the_line), sampled(line(9), 300 - at_the_line))
    )
    rows = Row("launch", 40), Row("transfer", moving, "", line(20))
    run = recording(*rows, device="cuda", operations=(ADDS,), sampled=seen)
    assert [each.saving for each in op_runs_on_cpu(run)] == [pytest.approx(saving)] * bool(saving)


def test_idle_time_of_no_known_line_is_explained_as_long_as_it_took():
    (finding,) = op_runs_on_cpu(recording(Row("python", 30), device="cuda", operations=(ADDS,)))
    assert finding.saving == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("shapes", "name", "micros", "row"),
    [
        ("float32[9]@cuda float32[]@cpu", "add_", 6000, IDLE),  # on the GPU, with a number
        ("float32[9]@cpu", "_to_copy", 6000, IDLE),
        ("", "arange", 6000, IDLE),
        ("float32[9]@cpu", "add_", 1900, IDLE),
        ("float32[9]@cpu", "add_", 6000, Row("data", 50, "", line(20))),  # reading a batch
        ("float32[9]@cpu", "add_", 6000, Row("python", 50, "", line(21))),  # the GPU is busy
    ],
)
def test_quiet_where_the_gpu_loses_nothing(shapes, name, micros, row):
    found = operation(name, line(20), shapes, micros=micros)
    assert op_runs_on_cpu(recording(row, device="cuda", operations=(found,))) == []


def test_quiet_while_a_batch_is_put_together():
    reads = replace(ADDS, phase="wait")
    assert op_runs_on_cpu(recording(IDLE, device="cuda", operations=(reads,))) == []


def test_quiet_without_a_gpu_or_evidence():
    assert op_runs_on_cpu(recording(IDLE, operations=(ADDS,))) == []
    assert op_runs_on_cpu(without_ledger(operations=(ADDS,))) == []
