from dataclasses import replace

import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.op_runs_on_cpu import op_runs_on_cpu

ADDS = operation("add_", line(20), "float32[9,9]@cpu float32[9,9]@cpu", micros=6000)
IDLE = Row("python", 8, "", line(20))


def test_names_the_line_whose_operation_leaves_the_gpu_idle():
    (finding,) = op_runs_on_cpu(recording(IDLE, device="cuda", operations=(ADDS,)))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT209", 20, 0.06)
    assert finding.message == "`add_` runs on the CPU while the GPU idles for 6.00 ms of 100 ms."


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
