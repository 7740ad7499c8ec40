import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.float64_on_device import float64_on_device

ROWS = Row("above", 5, "mul", line(9)), Row("floor", 3, "mul", line(11))


def computes(at, shapes="float64[64,64]@cuda", micros=4000.0):
    return operation("mul", line(at), shapes, device_micros=micros)


def test_names_the_dearest_line_and_adds_up_all():
    run = recording(*ROWS, device="cuda", operations=(computes(11, micros=2000.0), computes(9)))
    (finding,) = float64_on_device(run)
    assert (finding.code, finding.span.line, finding.saving) == ("PIT303", 9, 0.06)
    assert finding.message == (
        "2 lines of the step compute in float64 on the GPU: 6.00 ms of 100 ms."
    )


@pytest.mark.parametrize(
    ("operation", "device"),
    [
        (computes(9, "float32[64,64]@cuda"), "cuda"),
        (computes(9, "float32[64,64]@cuda float64[]@cuda"), "cuda"),  # one number
        (computes(9, "float64[64,64]@cpu"), "cuda"),
        (computes(9, micros=1900.0), "cuda"),
        (computes(9, micros=None), "cuda"),
        (computes(9), "cpu"),
    ],
)
def test_quiet_where_it_is_small_or_elsewhere(operation, device):
    assert float64_on_device(recording(*ROWS, device=device, operations=(operation,))) == []


def test_quiet_without_evidence():
    assert float64_on_device(without_ledger(operations=(computes(9),))) == []
