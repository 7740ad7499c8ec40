from dataclasses import replace

import pytest

from diagnose.builders import call, line, operation, recording, without_ledger
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


def with_repeats(above_ms, repeated_ms):
    rows = *run(above_ms, 1.0).ledger.rows[:2], Row("repeated", repeated_ms, NORM, line(95), 8)
    return recording(*rows, device="cuda")


def test_calls_that_are_repeated_are_part_of_its_time_but_not_of_its_saving():
    (finding,) = kernel_far_above_floor(with_repeats(4.0, 3.0))
    assert finding.saving == pytest.approx(0.04)
    assert finding.message.startswith("`native_group_norm` takes 8.00 ms of 100 ms in 10 calls, 8")
    assert kernel_far_above_floor(with_repeats(3.0, 4.0)) == []  # batching comes first


def test_work_on_the_scores_of_attention_is_told_by_its_own_rule():
    scores, calls = "float16[8,64,64]@cuda", (call("attention", 90),)
    bmm = "float16[8,64,16]@cuda float16[8,16,64]@cuda", f"{scores} float16[8,64,16]@cuda"
    operations = (
        operation("bmm", line(94), bmm[0], call=0),
        operation("add", line(95), scores, call=0),
        operation("_softmax", line(96), scores, call=0),
        operation("bmm", line(97), bmm[1], call=0),
    )
    rows = Row("above", 30.0, "add", line(95), 10), Row("floor", 1.0, "add", line(95), 10)
    written = recording(*rows, device="cuda", calls=calls, operations=operations)
    assert kernel_far_above_floor(written) == []
    fused = recording(*rows, device="cuda", calls=calls, operations=operations[:2])
    assert len(kernel_far_above_floor(fused)) == 1


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
