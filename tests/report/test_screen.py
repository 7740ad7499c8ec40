"""What `pitstop profile` shows at its end: one screen, with what comes first."""

import re
from dataclasses import replace

import pytest

from pitstop.core.evidence import Evidence, Line, ModuleCall, Operation
from pitstop.core.finding import Finding, Span
from pitstop.core.ledger import Ledger, Row
from pitstop.core.report import Report, Table
from pitstop.report import to_terminal

LONG = Line("/p/denoising_diffusion_pytorch_with_a_long_name.py", 312)
LEDGER = Ledger(100.0, "cpu", (Row("floor", 60.0, "convolution_backward", LONG), Row("data", 40.0)))


def finding(number, **more):
    usual = {"confidence": "measured", "saving": 0.1, "code": f"PIT00{number}", "cure": "do this"}
    span = Span("train.py", number, 1, number, 1)
    return Finding(f"number {number}", span=span, **usual | more)


FINDINGS = tuple(map(finding, range(1, 6)))
REPORT = Report(
    "profile",
    "train.py: 100 ms per step.",
    next="do this",
    ledger=LEDGER,
    findings=FINDINGS,
    tables=(Table("memory", ("peak",), (("host", "1 GiB"),)),),
    notes=("3 warm-up steps",),
)


def shown(report=REPORT, width=80):
    return to_terminal.render(report, width=width, brief=True)


def test_it_fits_on_one_screen_and_says_where_the_rest_is():
    text = shown()
    assert len(text.splitlines()) <= 24
    assert "number 3" in text
    assert "number 4" not in text
    assert "and 2 findings more: pitstop report last" in text
    assert "1 GiB" not in text
    assert "warm-up" not in text


def test_each_finding_says_how_sure_it_is_and_shows_its_line():
    marked = replace(FINDINGS[0], excerpt=("  6 | before", "> 7 | here()"))
    text = shown(replace(REPORT, findings=(marked,)))
    assert "PIT001 warning, measured, 10 % of each step" in text
    assert "> 7 | here()" in text
    assert "before" not in text
    assert "→ do this" in text


def test_notes_and_suspicions_leave_the_first_places_to_what_was_measured():
    found = finding(1, severity="note"), finding(2, confidence="suspected"), finding(3)
    text = shown(replace(REPORT, findings=found))
    assert "number 3" in text
    assert "number 1" not in text
    assert "number 2" not in text


@pytest.mark.parametrize("width", [46, 60, 72, 80, 100, 160])
def test_the_numbers_of_the_ledger_keep_their_columns(width):
    floor, data = (
        line for line in shown(width=width).splitlines() if line.startswith(("hardware", "waiting"))
    )
    assert "60.0 ms   60 %" in floor
    assert "40.0 ms   40 %" in data
    assert len(floor) <= width


@pytest.mark.parametrize("width", [60, 72, 80, 100, 160])
def test_the_number_of_a_line_is_never_cut(width):
    assert ".py:312" in shown(width=width)


def test_what_is_said_of_a_finding_stays_below_its_first_line_and_paths_are_whole():
    path = "/p/" + "deep/" * 20 + "train.py"
    long = replace(FINDINGS[0], message="some words " * 12, span=Span(path, 7, 1, 7, 1))
    lines = shown(replace(REPORT, findings=(long,)), width=60).splitlines()
    assert f"  {path}:7" in lines
    assert {len(line) - len(line.lstrip()) for line in lines if "words" in line} == {2}


def module(path, parent, micros=0.0):
    call = ModuleCall(path, "Block", Line("/p/infer.py", 9), parent, "f[8]")
    return call, Operation("aten.mm.default", call.where, "f", 1, micros, micros)


def run_of(*parts):
    """A run whose inspected step called these modules, given by path, caller and microseconds."""
    made = [module(*part) for part in parts]
    work = tuple(replace(each, call=place) for place, (_, each) in enumerate(made))
    return Evidence(steps=(), calls=tuple(call for call, _ in made), operations=work)


def behind_one_line(evidence):
    line = Line("/p/infer.py", 9)
    ledger = Ledger(100.0, "cpu", (Row("above", 100.0, "mm", line, 8, "up"),))
    return replace(REPORT, ledger=ledger, ranks=(evidence,))


def test_where_one_line_calls_the_whole_model_the_dearest_modules_stand_below_their_callers():
    run = run_of(
        ("UNet", -1),
        ("up.0", 0),
        ("up.0.resnets.1", 1, 700.0),
        ("up.1", 0, 250.0),
        ("tail", 0, 50.0),
        ("head", 0, 1.0),
    )
    lines = [line.split() for line in shown(behind_one_line(run)).splitlines()]
    begin = lines.index(["inside", "the", "model", "share", "of", "its", "work"])
    assert [" ".join(line) for line in lines[begin + 1 : begin + 6]] == [
        "UNet 100 %",
        "up.0 70 %",
        "resnets.1 70 %",
        "up.1 25 %",
        "",
    ]


def test_many_equal_blocks_are_one_line_with_what_is_inside_all_of_them():
    blocks = [
        part
        for n in range(12)
        for part in ((f"blocks.{n}", 0), (f"blocks.{n}.attention", 2 * n + 1, 50.0))
    ]
    text = shown(behind_one_line(run_of(("ViT", -1), *blocks)))
    assert re.search(r"^  blocks\.\* \(12\) +100 %$", text, re.MULTILINE)
    assert re.search(r"^    attention +100 %$", text, re.MULTILINE)


def test_where_one_line_calls_the_whole_model_its_modules_are_named():
    line = Line("/p/infer.py", 9)
    inner = Row("floor", 60.0, "convolution", line, 8, "unet.up_blocks.*.resnets.*")
    report = replace(REPORT, ledger=Ledger(100.0, "cpu", (inner, Row("python", 40.0, "", line))))
    assert "unet.up_blocks.*.resnets.*" in shown(report, width=120)
    others = Row("above", 60.0, "mm", Line("/p/model.py", 3), 8, "unet.attention")
    spread = replace(report, ledger=Ledger(160.0, "cpu", (*report.ledger.rows, others)))
    assert "infer.py:9 convolution" in shown(spread, width=120)
