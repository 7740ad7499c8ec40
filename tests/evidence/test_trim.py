"""What is trimmed off a recording is summed, not lost."""

from dataclasses import replace

import pytest

from diagnose.builders import call, line, operation, recording, sampled, work
from evidence.trim import BESIDE, as_installed, difference, summed, trim, with_short_paths
from pitstop.core.evidence import Evidence, Line, Parameters, Zeroed
from pitstop.core.ledger import Row

HOME, LIBRARY = "/home/me/project/", "/venv/lib/python3.12/site-packages/"


def test_short_operations_of_a_line_become_one_and_nothing_is_lost():
    sizes = range(1, 10)
    short = [operation("mul", line(3), f"float32[{n}]@cpu", micros=2.0, flops=n) for n in sizes]
    found = list(summed([*short, operation("mm", line(3), micros=50.0)], 16, [False] * 10))
    assert [(each.name, each.calls) for each in found] == [
        ("aten.mm.default", 1),
        ("aten.mul.default", 9),
    ]
    assert sum(each.micros for each in found) == pytest.approx(68.0)
    assert found[1].flops == 45


def test_a_sum_of_products_still_says_what_they_are_of():
    halves = [operation("mm", line(3), "float16[8,8]@cuda", micros=2.0, flops=9) for _ in range(2)]
    floats = operation("mm", line(3), "float32[8,8]@cuda", micros=2.0, flops=9)
    found = list(summed([*halves, floats], 16, [False] * 3))
    assert [(each.shapes, each.calls) for each in found] == [
        ("float16[]@cuda", 2),
        ("float32[]@cuda", 1),
    ]


def test_products_that_may_be_those_of_attention_keep_their_shapes():
    sizes = [f"float16[8,{n},4]@cuda float16[8,4,{n}]@cuda" for n in (16, 32)]
    products = [operation("bmm", line(3), each, micros=2.0, flops=9) for each in sizes]
    assert [each.shapes for each in summed(products, 16, [False] * 2)] == sizes


def test_a_cut_outside_the_model_stays_as_it_is():
    cut = operation("slice", line(3), "float32[1,3,512,512]@cuda", micros=2.0)
    assert trim(Evidence(operations=(cut,)), least_us=16).operations == (cut,)


def test_a_view_on_the_gpu_is_short_however_long_python_took_over_it():
    view = operation("view", line(3), "float32[8]@cuda", micros=90.0)
    gathers = operation("index", line(4), "float32[8]@cpu", micros=90.0)
    product = operation("mm", line(5), "float32[8,8]@cuda", device_micros=50.0)
    found = list(summed([view, gathers, product], 16, [False] * 3))
    assert [each.name for each in found] == [gathers.name, product.name, "aten.others.default"]
    assert found[0].shapes == "float32[]@cpu"


def test_what_attention_does_to_its_scores_is_kept_one_by_one():
    scores = "float32[8,64,64]@cuda"
    operations = (
        operation("bmm", line(3), "float32[8,64,4]@cuda float32[8,4,64]@cuda", call=1),
        operation("_softmax", line(4), scores, call=1, micros=1.0),
        operation("bmm", line(5), f"{scores} float32[8,64,4]@cuda", call=1),
    )
    calls = call("model", 1), call("attention", 2, 0)
    found = trim(Evidence(calls=calls, operations=operations), least_us=1024)
    assert len(found.calls) == 2
    assert operations[1] in found.operations


def test_a_short_call_of_what_gets_no_gradient_is_still_a_call():
    calls = call("model", 1), call("model.head", 2, 0), call("model.body", 3, 0)
    untrained = Parameters(9, without_gradient=(("model.head.weight", 9),))
    made = Evidence(calls=calls, step_kind="optimizer", parameters=untrained)
    assert [each.path for each in trim(made, 64).calls] == ["model", "model.head"]


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
    files = (
        HOME + "train.py",
        HOME + "nets/a.py",
        LIBRARY + "x/b.py",
        "/home/me/carry/public/VRT/c.py",
    )
    made = Evidence(operations=tuple(operation("mm", Line(each, 1)) for each in files))
    found = [each.where.path for each in with_short_paths(made).operations]
    assert found == ["project/train.py", "project/nets/a.py", "x/b.py", "VRT/c.py"]


def test_a_library_beside_the_script_is_told_by_the_line_that_calls_it():
    beside = Line(HOME + BESIDE + "x/net.py", 7)
    outer = replace(call("vae", 1), where=beside, through=(beside, line(9)))
    inner = replace(call("vae.conv", 1, 0), where=beside)
    operations = (
        operation("mm", beside, call=1),
        operation("add", beside),  # too short to be kept with its call
        operation("mul", line(12), call=0),
    )
    seen = sampled(beside, 5), sampled(Line(HOME + BESIDE + "y/other.py", 3), 5)
    found = as_installed(Evidence(calls=(outer, inner), operations=operations, sampled=seen))
    assert [each.where for each in found.calls] == [line(9), line(9)]
    assert [each.where.line for each in found.operations] == [9, 9, 12]
    assert [each.where for each in found.sampled] == [line(9), Line()]


def test_what_would_be_judged_otherwise_is_refused():
    whole = recording(Row("data", 40.0))
    other = recording(Row("data", 38.0))
    assert difference(whole, whole) == ""
    assert difference(whole, other).startswith("data is 38.00 ms instead of 40.00")
    known = replace(whole.evidence, steps=whole.evidence.steps[:9])
    assert difference(whole, replace(whole, ranks=(known,))) != ""
