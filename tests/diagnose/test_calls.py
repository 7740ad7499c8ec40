from dataclasses import replace

import pytest

from diagnose.builders import backward_passes, call, line, operation, recording, work
from pitstop.core.ledger import Row
from pitstop.diagnose.facts.calls import backward_passes as passes_of
from pitstop.diagnose.facts.calls import call_tree, calling_lines, labels, pattern, repeats, stretch
from pitstop.diagnose.facts.operations import UNTIED


def groups(*calls, passes=1):
    evidence = recording(calls=calls, operations=(backward_passes(passes),)).evidence
    return repeats(evidence, call_tree(evidence))


def test_a_call_costs_what_the_calls_it_makes_cost_too():
    calls = call("Model", 1), call("encoder", 2, 0), call("encoder.norm", 3, 1)
    operations = (
        work(10, 0, flops=1),
        work(20, 1, flops=2),
        work(30, 2, flops=3, backward=True),
        work(40),
    )
    tree = call_tree(recording(calls=calls, operations=operations).evidence)
    assert tree.micros == (60, 50, 30)
    assert tree.backward_micros == (30, 30, 30)
    assert tree.flops == (6, 5, 3)
    assert tree.all_micros == 100


def test_on_a_gpu_only_kernels_count():
    operations = work(10, 0, device_micros=2.0), work(10, 0)
    tree = call_tree(recording(calls=(call("Model", 1),), operations=operations).evidence)
    assert tree.micros == (2.0,)


def test_putting_a_batch_together_is_no_work_of_the_step():
    operations = work(10, 0), work(90, phase="wait")
    tree = call_tree(recording(calls=(call("Model", 1),), operations=operations).evidence)
    assert tree.all_micros == 10


def test_outermost_calls_are_not_made_by_others_of_them():
    calls = call("a", 1), call("a.b", 2, 0), call("a.b.c", 3, 1), call("d", 4)
    tree = call_tree(recording(calls=calls).evidence)
    assert tree.outermost([2, 1, 3]) == [1, 3]


def test_equal_calls_from_one_call_repeat():
    assert groups(call("M", 1), call("e", 2, 0), call("e", 3, 0), call("e", 4, 0)) == [(1, 2, 3)]


def test_only_the_outermost_repeats_are_told():
    twice = call("e", 2), call("e.f", 3, 0), call("e.f", 3, 0)
    again = call("e", 4), call("e.f", 3, 3), call("e.f", 3, 3)
    assert groups(*twice, *again) == [(0, 3)]


@pytest.mark.parametrize(
    "different",
    [
        {"shapes": "float32[4,3]@cpu"},
        {"path": "other"},
        {"training": False},
        {"frozen": True},
        {"graph": True},
        {"parameters": 101},
        {"chained": True},
        {"recomputed": True},
        {"unused": True},
    ],
)
def test_a_call_that_differs_is_no_repeat(different):
    other = {"path": "e"} | different
    assert groups(call("e", 2), call(other.pop("path"), 3, **other)) == []


def test_a_module_without_parameters_is_no_repeat():
    assert groups(call("relu", 2, parameters=0), call("relu", 3, parameters=0)) == []


def test_calls_from_different_calls_are_no_repeats():
    assert groups(call("a", 1), call("x", 2, 0), call("b", 3), call("x", 4, 2)) == []


def test_the_batches_of_an_accumulated_step_are_no_repeats():
    assert groups(*[call("model", 1)] * 4, passes=4) == []


def test_only_the_gradient_of_one_number_starts_a_backward_pass():
    ones = (
        operation("ones_like", line(5), "float32[8,3]@cpu"),
        operation("sum", line(6), "float32[]@cpu"),
    )
    evidence = recording(operations=(*ones, backward_passes(2))).evidence
    assert passes_of(evidence) == 2


def test_below_a_call_are_all_calls_it_makes():
    calls = call("a", 1), call("a.b", 2, 0), call("a.b.c", 3, 1), call("d", 4)
    tree = call_tree(recording(calls=calls).evidence)
    assert [each.path for each in tree.below(1)] == ["a.b", "a.b.c"]


def test_in_an_accumulated_step_the_calls_of_each_batch_repeat():
    calls = [call("encoder", at, passes=(batch,)) for batch in (0, 1) for at in (1, 2)]
    assert groups(*calls, passes=2) == [(0, 1), (2, 3)]


def test_an_accumulated_step_with_one_call_for_each_batch_repeats_nothing():
    assert groups(*[call("model", 1, passes=(batch,)) for batch in (0, 1)], passes=2) == []


def test_older_recordings_do_not_tell_which_pass_needs_which_call():
    assert groups(*[call("discriminator", 1)] * 3, passes=2) == []


def test_a_critic_s_real_and_made_up_pictures_are_a_pair_and_the_generator_s_are_not():
    fooled = call("critic", 8, passes=(0,), interval=0)
    real, made = (call("critic", at, passes=(1,), interval=1) for at in (11, 12))
    assert groups(fooled, real, made, passes=2) == [(1, 2)]
    apart = replace(real, passes=(0,)), replace(made, passes=(1,))
    assert groups(*apart, replace(fooled, passes=(2,), interval=2), passes=3) == [(0, 1)]


def test_calls_with_an_optimizer_step_between_them_have_other_weights():
    steps = [call("critic", 11, passes=(number,), interval=number) for number in range(3)]
    assert groups(*steps, passes=3) == []


def test_without_a_backward_pass_all_equal_calls_repeat():
    assert groups(*[call("model", 1)] * 3, passes=0) == [(0, 1, 2)]


ENCODE = line(80, "model.py", "encode")
DECODE, FORWARD = line(86, "model.py", "decode"), line(95, "model.py", "forward")


def lines_named(*through):
    calls = [call("e", 80, where=ENCODE, through=each) for each in through]
    tree = call_tree(recording(calls=calls).evidence)
    return [each.line for each in calling_lines(tree, range(len(calls)))]


def test_calls_by_a_helper_are_told_by_the_lines_that_call_it():
    next_line = line(87, "model.py", "decode")
    found = lines_named((FORWARD,), (DECODE, FORWARD), (next_line, FORWARD))
    assert found == [86, 87, 95]


def test_calls_in_a_loop_are_told_by_the_line_in_it():
    assert lines_named((DECODE,), (DECODE,), (FORWARD,)) == [80]


def test_calls_of_old_recordings_are_told_by_their_line():
    assert lines_named((), (), ()) == [80]


def test_kernels_of_no_operation_are_no_part_of_any_call():
    made = recording(Row("above", 60.0), Row("unmeasured", 40.0, UNTIED), calls=(call("Model", 1),))
    tree = call_tree(replace(made.evidence, operations=(work(10, 0), work(20, 0))))
    assert tree.ms(10.0, made.ledger) == pytest.approx(20.0)


def test_names_lines_and_modules_for_people():
    lines = line(7), line(9), line(3, "loss.py")
    assert labels(lines) == "train.py:7, 9, loss.py:3"
    assert (stretch(lines).line, stretch(lines).end_line) == (7, 9)
    assert stretch(()) is None
    assert stretch((line(147), line(139), line(562))).end_line == 147  # another class's forward
    assert pattern(["stages.0.align", "stages.11.align"]) == "stages.*.align"
    assert pattern(["conv2d.1.norm2"]) == "conv2d.1.norm2"
    assert pattern(["stage1.align2", "stage7.align2"]) == "stage*.align2"
