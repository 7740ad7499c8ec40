from dataclasses import replace

import pytest

from diagnose.builders import backward_passes, call, line, recording, without_ledger, work
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.module_called_repeatedly import module_called_repeatedly

THREE = call("encoder", 11), call("encoder", 12), call("encoder", 13), call("head", 14)


def run(*calls, each_us=20.0, rest_us=40.0, saved_ms=30.0, passes=1):
    operations = [work(each_us, place) for place in range(3)]
    operations += [work(rest_us), backward_passes(passes)]
    return recording(Row("repeated", saved_ms), calls=calls, operations=tuple(operations))


def test_names_every_line_that_calls_it_and_what_the_calls_cost():
    (finding,) = module_called_repeatedly(run(*THREE))
    assert finding.code == "PIT601"
    assert (finding.span.line, finding.span.end_line) == (11, 13)
    assert finding.saving == pytest.approx(0.30)
    assert finding.message == (
        "`encoder` is called 3 times a step on equal shapes (train.py:11, 12, 13), and all but "
        "the first take 40.0 ms of 100 ms; one call on the stacked batch gives the same numbers "
        "and saves at most 30.0 ms of it."
    )


def test_never_promises_more_than_the_calls_take():
    (finding,) = module_called_repeatedly(run(*THREE, saved_ms=50.0))
    assert finding.saving == pytest.approx(0.40)


def test_promises_nothing_where_no_floor_is_known():
    made = run(*THREE)
    made.__dict__["ledger"] = replace(made.ledger, floor_known=False)
    (finding,) = module_called_repeatedly(made)
    assert finding.saving is None


def test_two_families_share_what_batching_saves():
    calls = call("a", 11), call("a", 12), call("b", 13), call("b", 14)
    operations = work(10, 0), work(10, 1), work(30, 2), work(30, 3), work(20)
    made = recording(Row("repeated", 20.0), calls=calls, operations=operations)
    assert [each.saving for each in module_called_repeatedly(made)] == pytest.approx([0.15, 0.05])


def test_modules_of_a_list_at_one_line_are_one_finding():
    aligned = [call(f"stages.{stage}.align", 97, stage) for stage in (0, 1) for _ in range(5)]
    calls = call("stages.0", 5, kind="Stage"), call("stages.1", 5, kind="Stage"), *aligned
    operations = tuple(work(10, place) for place in range(2, 12))
    made = recording(Row("repeated", 20.0), calls=calls, operations=operations)
    (finding,) = module_called_repeatedly(made)
    assert finding.message.startswith(
        "`stages.*.align` is called 10 times a step, 5 at a time, on equal shapes (train.py:97)"
    )


def test_batch_norm_in_training_makes_it_a_note():
    norm = call("encoder.norm", 3, 0, kind="BatchNorm2d")
    calls = call("encoder", 11), norm, call("encoder", 12)
    spent = work(20, 0), work(20, 2), work(60)
    made = recording(Row("repeated", 20.0), calls=calls, operations=spent)
    (finding,) = module_called_repeatedly(made)
    assert finding.severity == "note"
    assert "takes its statistics over all of them" in finding.message
    evaluated = calls[0], replace(norm, training=False), calls[2]
    made = recording(Row("repeated", 20.0), calls=evaluated, operations=spent)
    assert module_called_repeatedly(made)[0].severity == "warning"


def test_what_is_called_on_the_same_lines_is_told_once_by_its_dearest():
    calls = [call(name, number) for number in (11, 12) for name in ("embed", "encoder")]
    operations = [work(micros, place) for place, micros in enumerate((2, 30, 2, 30))]
    made = recording(Row("repeated", 20.0), calls=tuple(calls), operations=tuple(operations))
    (finding,) = module_called_repeatedly(made)
    assert finding.message.startswith("`encoder` is called 2 times")


def test_quiet_on_the_batches_of_an_accumulated_step():
    assert module_called_repeatedly(run(*[call("model", 11)] * 3, passes=3)) == []


def test_quiet_where_each_call_keeps_the_device_busy_with_work_of_its_own():
    assert module_called_repeatedly(run(*THREE, saved_ms=0.9)) == []


def test_quiet_where_the_calls_after_the_first_cost_little():
    assert module_called_repeatedly(run(*THREE, each_us=0.4, rest_us=98.8)) == []
    assert module_called_repeatedly(run(*THREE, each_us=0.8, rest_us=97.6)) != []


def test_quiet_where_nothing_was_inspected():
    assert module_called_repeatedly(recording()) == []
    assert module_called_repeatedly(without_ledger(calls=THREE)) == []


def test_calls_of_one_line_have_a_place_of_one_line():
    (finding,) = module_called_repeatedly(run(*[call("encoder", 11)] * 3))
    assert (finding.span.path, finding.span.line, finding.span.end_line) == (line(1).path, 11, 11)
