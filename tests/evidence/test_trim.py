"""What is trimmed off a recording is summed, not lost."""

from dataclasses import replace

import pytest

from diagnose.builders import call, line, operation, recording, sampled, work
from evidence.trim import difference, summed, trim, with_short_paths
from pitstop.core.evidence import Evidence, Line, Zeroed
from pitstop.core.ledger import Row

HOME, LIBRARY = "/home/me/project/", "/venv/lib/python3.12/site-packages/"


def test_short_operations_of_a_line_become_one_and_nothing_is_lost():
    sizes = range(1, 10)
    short = [operation("mul", line(3), f"float32[{n}]@cpu", micros=2.0, flops=n) for n in sizes]
    found = list(summed([*short, operation("mm", line(3), micros=50.0)], least_us=16))
    assert [(each.name, each.calls) for each in found] == [
        ("aten.mm.default", 1),
        ("aten.mul.default", 9),
    ]
    assert sum(each.micros for each in found) == pytest.approx(68.0)
    assert found[1].flops == 45


def test_a_sum_of_products_still_says_what_they_are_of():
    halves = [operation("mm", line(3), "float16[8,8]@cuda", micros=2.0, flops=9) for _ in range(2)]
    floats = operation("mm", line(3), "float32[8,8]@cuda", micros=2.0, flops=9)
    found = list(summed([*halves, floats], least_us=16))
    assert [(each.shapes, each.calls) for each in found] == [
        ("float16[]@cuda", 2),
        ("float32[]@cuda", 1),
    ]


def test_products_that_may_be_those_of_attention_keep_their_shapes():
    sizes = [f"float16[8,{n},4]@cuda float16[8,4,{n}]@cuda" for n in (16, 32)]
    found = summed([operation("bmm", line(3), each, micros=2.0, flops=9) for each in sizes], 16)
    assert [each.shapes for each in found] == sizes


def test_a_cut_outside_the_model_stays_as_it_is():
    cut = operation("slice", line(3), "float32[1,3,512,512]@cuda", micros=2.0)
    assert list(summed([cut], least_us=16)) == [cut]


def test_the_lines_found_least_are_summed_so_that_shares_stay_true():
    many = tuple(sampled(line(n), 200 - n, waiting=n > 70) for n in range(1, 81))
    found = trim(Evidence(sampled=many), least_us=16).sampled
    assert len(found) == 62
    assert [sum(s.samples for s in each) for each in (found, many)] == [sum(range(120, 200))] * 2
    assert [(each.where.path, each.waiting) for each in found[-2:]] == [("", False), ("", True)]


def test_a_short_call_hands_its_work_to_the_call_around_it():
    calls = call("model", 5), call("model.norm", 6, 0), call("model.big", 7, 0), call("zero", 8)
    made = Evidence(
        calls=calls,
        operations=(work(3.0, 1), work(900.0, 2), work(1.0, 3)),
        zeroed=(Zeroed(line(8), (3,)),),
    )
    found = trim(made, least_us=64)
    assert [each.path for each in found.calls] == ["model", "model.big", "zero"]
    assert found.calls[1].parent == 0
    assert found.zeroed[0].calls == (2,)
    assert {each.call: each.micros for each in found.operations} == {0: 3.0, 1: 900.0, 2: 1.0}


def test_paths_begin_with_the_folder_of_the_script():
    places = Line(HOME + "train.py", 1), Line(HOME + "nets/a.py", 2), Line(LIBRARY + "x/b.py", 3)
    made = Evidence(operations=tuple(operation("mm", each) for each in places))
    found = [each.where.path for each in with_short_paths(made).operations]
    assert found == ["project/train.py", "project/nets/a.py", "x/b.py"]


def test_what_would_be_judged_otherwise_is_refused():
    whole = recording(Row("data", 40.0))
    other = recording(Row("data", 38.0))
    assert difference(whole, whole) == ""
    assert difference(whole, other).startswith("data is 38.00 ms instead of 40.00")
    known = replace(whole.evidence, steps=whole.evidence.steps[:9])
    assert difference(whole, replace(whole, ranks=(known,))) != ""
