from dataclasses import replace

import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.evidence import Operation
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.sync_in_hot_loop import sync_in_hot_loop

READ = "_local_scalar_dense"


def on_gpu(ms, *operations, at=20, **evidence):
    rows = Row("sync", ms, "", line(at))
    return recording(rows, device="cuda", operations=operations, **evidence)


def on_cpu(*rows, operations):
    return recording(*rows, operations=operations)


def reads(at, calls, name=READ):
    return operation(name, line(at), "float32[]@cpu", calls)


def test_names_the_line_after_which_the_gpu_runs_dry():
    read = operation(READ, line(20), "float32[]@cuda", 4, waits=True)
    (finding,) = sync_in_hot_loop(on_gpu(3.0, read))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT201", 20, 0.03)
    assert finding.message == (
        "`.item()` makes Python wait for the GPU, 4 times a step; until its queue is full again "
        "it costs 3.00 ms of 100 ms."
    )


def test_calls_are_named_as_they_were_written():
    waits = Operation("torch.cuda.synchronize", line(20), "", 1, 9.0, waits=True)
    (finding,) = sync_in_hot_loop(on_gpu(3.0, waits))
    assert finding.message.startswith("`torch.cuda.synchronize` makes Python wait")


def test_says_so_even_where_no_operation_explains_the_wait():
    (finding,) = sync_in_hot_loop(on_gpu(3.0))
    assert finding.message.startswith("This line makes Python wait for the GPU; until")


@pytest.mark.parametrize(
    "run",
    [
        on_gpu(0.9, operation(READ, line(20), "float32[]@cuda", 4, waits=True)),
        on_gpu(5.0, operation("_fused_adam_", line(20), phase="optimizer")),  # the scaler's own
        on_gpu(
            5.0,
            operation("_to_copy", line(20), "float32[9]@cpu", waits=True, moved_bytes=1 << 24),
        ),  # blocking-copy
        on_gpu(5.0, Operation("torch.cuda.empty_cache", line(20), "", 1, 9.0, waits=True)),
        on_gpu(5.0, operation("_amp_update_scale_", line(20))),
        recording(Row("sync", 5.0), device="cuda"),  # nobody knows where
    ],
)
def test_quiet_where_it_costs_nothing_or_has_another_cause(run):
    assert sync_in_hot_loop(run) == []


def test_a_loop_over_numbers_is_dear_on_the_cpu_too():
    rows = Row("python", 12, "", line(31)), Row("unmeasured", 3, READ, line(31))
    (finding,) = sync_in_hot_loop(on_cpu(*rows, operations=(reads(31, 512),)))
    assert (finding.span.line, finding.saving) == (31, pytest.approx(0.15))
    assert finding.message == "`.item()` reads 512 numbers a step, one by one: 15.0 ms of 100 ms."


def test_a_line_that_does_more_than_read_is_not_promised_as_a_whole():
    rows = Row("python", 44, "", line(4)), Row("above", 20, "mm", line(4))  # it calls the training
    assert sync_in_hot_loop(on_cpu(*rows, operations=(reads(4, 32),))) == []


def test_labels_that_a_dataset_reads_belong_to_the_wait_for_its_batch():
    rows = Row("python", 44, "", line(4)), Row("data", 20)
    labels = operation(READ, line(4), "int64[]@cpu", 512, phase="wait")
    assert sync_in_hot_loop(on_cpu(*rows, operations=(labels,))) == []


def test_the_line_that_only_takes_the_rows_belongs_to_the_loop():
    operations = reads(31, 512), reads(30, 512, "select"), reads(29, 512, "mul")
    rows = [Row("python", ms, "", line(at)) for at, ms in ((31, 4), (30, 3), (29, 50))]
    (finding,) = sync_in_hot_loop(on_cpu(*rows, operations=operations))
    assert (finding.span.line, finding.saving) == (31, pytest.approx(0.07))


def test_so_does_the_loop_that_takes_all_rows_at_once():
    unbinds = [operation("unbind", line(30), f"float32[{rows},9]@cpu") for rows in (500, 12)]
    rows = Row("python", 4, "", line(31)), Row("unmeasured", 3, "unbind", line(30))
    (finding,) = sync_in_hot_loop(on_cpu(*rows, operations=(reads(31, 512), *unbinds)))
    assert finding.saving == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("calls", "ms"),
    [(1, 50), (19, 50), (512, 4.9)],  # a logged loss; a few metrics; a cheap loop
)
def test_a_few_reads_on_the_cpu_are_no_matter(calls, ms):
    run = on_cpu(Row("python", ms, "", line(31)), operations=(reads(31, calls),))
    assert sync_in_hot_loop(run) == []


def test_an_optimizer_reads_the_counters_that_it_keeps():
    own = operation(READ, line(31), calls=512, phase="optimizer")
    assert sync_in_hot_loop(recording(Row("above", 40, "x", line(31)), operations=(own,))) == []


@pytest.mark.parametrize(("name", "words"), [("numpy", "`.numpy()`"), ("tolist", "`.tolist()`")])
def test_numbers_may_leave_by_other_ways(name, words):
    read = replace(operation("x", line(31), calls=512), name=f"torch.Tensor.{name}")
    made = recording(Row("above", 40, "x", line(31)), operations=(read,))
    (finding,) = sync_in_hot_loop(made)
    assert finding.message.startswith(f"{words} reads 512 numbers a step")


def test_quiet_without_evidence():
    assert sync_in_hot_loop(without_ledger(operations=(reads(31, 512),))) == []
    assert sync_in_hot_loop(recording()) == []
