from dataclasses import replace

import pytest

from diagnose.builders import line, recording, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.kernel_far_above_floor import kernel_far_above_floor

NORM = "native_group_norm"


def run(above_ms, floor_ms, what=NORM, calls=10, device="cuda"):
    rows = (
        Row("above", above_ms, what, line(95), calls),
        Row("floor", floor_ms, what, line(95), calls),
    )
    return recording(*rows, device=device)


def test_group_norm_comes_out_with_its_distance_and_its_part():
    (finding,) = kernel_far_above_floor(run(30.0, 1.0))
    assert (finding.code, finding.span.line) == ("PIT605", 95)
    assert finding.saving == pytest.approx(0.30)
    assert finding.changes == ("fused-group-norm", "compile")
    assert finding.message == (
        "`native_group_norm` takes 31.0 ms of 100 ms in 10 calls, 31 times what its bytes and "
        "FLOPs need."
    )


def test_lines_are_told_apart():
    other = Row("above", 4.0, NORM, line(96), 10), Row("floor", 0.1, NORM, line(96), 10)
    rows = (*run(30.0, 1.0).ledger.rows[:2], *other)
    assert len(kernel_far_above_floor(recording(*rows, device="cuda"))) == 1


def test_quiet_on_a_cpu_however_far_it_is():
    assert kernel_far_above_floor(run(60.0, 1.0, device="cpu", calls=2)) == []


@pytest.mark.parametrize(
    "run",
    [
        run(10.0, 20.0, "convolution"),  # 1.5 times its floor is well done
        run(4.0, 0.1),
        run(30.0, 1.0, calls=10_000),  # many small kernels: another problem
        run(30.0, 0.0),
        run(30.0, 1.0, what=""),
        run(30.0, 1.0, what="randn"),
        run(30.0, 1.0, what="c10d"),  # the wait for another rank
        recording(),
        without_ledger(),
    ],
)
def test_quiet(run):
    assert kernel_far_above_floor(run) == []


def test_quiet_where_no_ceiling_was_measured():
    made = run(30.0, 1.0)
    made.__dict__["ledger"] = replace(made.ledger, floor_known=False)
    assert kernel_far_above_floor(made) == []
