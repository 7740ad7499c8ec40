import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.evidence import Kernel
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.launch_bound import launch_bound

OPERATIONS = (
    operation("add", line(12), calls=30, device_micros=9.0),
    operation("mul", line(13), calls=20, device_micros=9.0),
    operation("sub", line(13), calls=20, device_micros=9.0),
    operation("view", line(14), calls=90),
)


def test_names_the_line_that_launches_most_and_counts_the_kernels():
    kernels = Kernel("add", 900, 5.0), Kernel("mul", 100, 5.0)
    run = recording(Row("launch", 24), device="cuda", kernels=kernels, operations=OPERATIONS)
    (finding,) = launch_bound(run)
    assert (finding.code, finding.span.line, finding.saving) == ("PIT206", 13, 0.24)
    assert finding.message.startswith("Between 1000 kernels the GPU idles for 24.0 ms of 100 ms:")


def test_python_in_short_silences_between_launches_counts():
    rows = Row("launch", 8), Row("python", 6, calls=40), Row("python", 9, "", line(3), 40)
    (finding,) = launch_bound(recording(*rows, device="cuda"))
    assert finding.saving == pytest.approx(0.14)


def test_one_long_silence_is_other_work():
    rows = Row("launch", 8), Row("python", 60, calls=3)
    assert launch_bound(recording(*rows, device="cuda")) == []


@pytest.mark.parametrize(
    ("row", "device"),
    [(Row("launch", 9.9), "cuda"), (Row("python", 50), "cuda"), (Row("launch", 50), "cpu")],
)
def test_quiet_where_launches_are_not_to_blame(row, device):
    assert launch_bound(recording(row, device=device, operations=OPERATIONS)) == []


def test_quiet_without_evidence_and_without_a_line_where_none_is_known():
    assert launch_bound(without_ledger()) == []
    (finding,) = launch_bound(recording(Row("launch", 50), device="cuda"))
    assert finding.span is None


def test_on_a_cpu_it_is_operations_on_too_few_numbers():
    rows = (
        Row("start", 30, "mul", line(9), 900),
        Row("start", 14, "add", line(8), 600),
        Row("start", 20, "addmm", line(8), 60),  # stays one product whatever is fused
    )
    (finding,) = launch_bound(recording(*rows, device="cpu"))
    assert (finding.span.line, finding.saving) == (9, 0.44)
    assert finding.message.startswith("1500 operations take 44.0 ms of 100 ms, 29 µs each")
    assert "compile" in finding.changes


def test_some_small_operations_are_in_every_script():
    assert launch_bound(recording(Row("start", 29, "mul", line(9), 900), device="cpu")) == []
