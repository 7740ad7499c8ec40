import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.evidence import Loader, ModuleCall
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.python_loop_over_tensor import python_loop_over_tensor

UNBINDS = operation("unbind", line(12), "float32[64,3,8]@cpu")
WORKS = operation("mul", line(13), "float32[3,8]@cpu", 64)
ROWS = Row("start", 3, "mul", line(13), 64), Row("python", 27, "", line(12))


def test_names_the_line_that_takes_the_rows_and_counts_the_whole_body():
    (finding,) = python_loop_over_tensor(recording(*ROWS, operations=(WORKS, UNBINDS)))
    assert (finding.code, finding.span.line) == ("PIT208", 12)
    assert finding.saving == pytest.approx(0.3 * 63 / 64)
    assert finding.message == (
        "Python walks over 64 rows of a tensor one by one: 30.0 ms of 100 ms."
    )


def test_sees_rows_that_are_taken_by_their_number():
    selects = operation("select", line(12), "float32[64,3,8]@cpu", 64)
    (finding,) = python_loop_over_tensor(recording(*ROWS, operations=(selects, WORKS)))
    assert finding.span.line == 12


def test_counts_rounds_over_all_shapes():
    works = [operation("mul", line(13), f"float32[{size},8]@cpu", 32) for size in (3, 4)]
    (finding,) = python_loop_over_tensor(recording(*ROWS, operations=(UNBINDS, *works)))
    assert finding.saving == pytest.approx(0.3 * 63 / 64)


def test_sees_a_comprehension_which_is_a_function_of_its_own():
    inner = operation("mul", line(12, function="<listcomp>"), "float32[3,8]@cpu", 64)
    row = Row("start", 9, "mul", line(12, function="<listcomp>"), 640)
    (finding,) = python_loop_over_tensor(recording(row, operations=(UNBINDS, inner)))
    assert (finding.span.line, finding.saving) == (12, pytest.approx(0.09 * 63 / 64))


@pytest.mark.parametrize(
    "operations",
    [
        (UNBINDS,),  # nothing is done with the rows
        (UNBINDS, operation("mul", line(13), "float32[3,8]@cpu", 3)),  # not for each of them
        (UNBINDS, operation("mul", line(13, "model.py"), "float32[3,8]@cpu", 64)),
        (operation("unbind", line(12), "float32[3,64,8]@cpu"), WORKS),  # query, key and value
        (UNBINDS, operation("_local_scalar_dense", line(13), "float32[]@cpu", 64)),
        (UNBINDS, WORKS, operation("_local_scalar_dense", line(14), "float32[]@cpu", 64)),
        (),
    ],
)
def test_quiet_where_there_is_no_loop_or_it_only_reads(operations):
    assert python_loop_over_tensor(recording(*ROWS, operations=operations)) == []


def test_walks_over_a_few_rows_in_many_calls_are_no_walk_over_many():
    walks = operation("unbind", line(12), "float32[2,8]@cpu", 12)
    takes = operation("select", line(12), "float32[2,8]@cpu", 24)
    summed = operation("select", line(12), "float32[64,8]@cpu", 64, summed=True)
    for each in (walks, takes, summed):
        assert python_loop_over_tensor(recording(*ROWS, operations=(each, WORKS))) == []


def test_functions_of_one_name_in_two_classes_are_two():
    other = operation("mul", line(99, function="Attention.forward"), "float32[3,8]@cpu", 64)
    taken = operation("unbind", line(12, function="Embed.forward"), "float32[64,3,8]@cpu")
    row = Row("start", 30, "mul", other.where, 64)
    assert python_loop_over_tensor(recording(row, operations=(taken, other))) == []


def test_work_on_the_rows_remains_and_is_not_promised():
    work = Row("above", 60, "mul", line(13), 64)
    (finding,) = python_loop_over_tensor(recording(*ROWS, work, operations=(UNBINDS, WORKS)))
    assert "90.0 ms of 100 ms" in finding.message
    assert finding.saving == pytest.approx((0.30 + 64 * 0.05 / 100) * 63 / 64)


def test_the_samples_that_a_loader_takes_from_a_tensor_are_no_loop():
    selects = operation("select", line(12), "float32[9999,3,8]@cpu", 64)
    loader = Loader("TensorDataset", 0, used=line(12))
    run = recording(*ROWS, operations=(selects, WORKS), loaders=(loader,))
    assert python_loop_over_tensor(run) == []


def test_rows_that_many_module_calls_take_one_by_one_are_no_loop():
    selects = [operation("select", line(12), "float32[64,3,8]@cpu", 2, call=n) for n in range(32)]
    assert python_loop_over_tensor(recording(*ROWS, operations=(*selects, WORKS))) == []


def test_quiet_where_each_round_needs_the_one_before():
    cell = ModuleCall("cell", "GRUCell", line(13), -1, "float32[3,8]@cpu", chained=True)
    run = recording(*ROWS, operations=(UNBINDS, WORKS), calls=(cell,))
    assert python_loop_over_tensor(run) == []


def test_rounds_that_call_a_module_without_needing_the_last_one_can_be_batched():
    head = ModuleCall("head", "Linear", line(13), -1, "float32[3,8]@cpu")
    run = recording(*ROWS, operations=(UNBINDS, WORKS), calls=(head,))
    assert len(python_loop_over_tensor(run)) == 1


def test_quiet_where_the_loop_is_cheap_or_nothing_was_recorded():
    cheap = Row("above", 60.0, "mul", line(13), 64)
    assert python_loop_over_tensor(recording(cheap, operations=(UNBINDS, WORKS))) == []
    assert python_loop_over_tensor(without_ledger(operations=(UNBINDS, WORKS))) == []
