"""One golden report in every format; `UPDATE_GOLDEN=1 make test` after a change that is meant."""

import os
from pathlib import Path

import pytest

from examples import REPORT
from pitstop.cli.formats import formats
from pitstop.core import store
from pitstop.core.comparison import Comparison
from pitstop.core.evidence import Evidence, Line
from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger, Row
from pitstop.core.report import Check, Report
from pitstop.report import to_html, to_json, to_markdown, to_terminal
from pitstop.report.waterfall import BAR, bars, drawn

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("name", formats())
def test_the_golden_report_is_unchanged(name):
    renderer = __import__(f"pitstop.report.to_{name}", fromlist=["render"])
    golden = GOLDEN / f"report.{name}{renderer.SUFFIX}"
    text = renderer.render(REPORT)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8", newline="\n")
    assert text == golden.read_text(encoding="utf-8")


def test_json_is_the_report_and_comes_back_equal():
    assert store.loads(to_json.render(REPORT), Report) == REPORT


def test_the_verdict_comes_first_in_what_people_read():
    assert to_terminal.render(REPORT).startswith("Verdict")
    assert to_markdown.render(REPORT).splitlines()[2].startswith("**Verdict**")


def test_terminal_has_colour_only_when_asked():
    assert "\x1b[" not in to_terminal.render(REPORT)
    assert "\x1b[" in to_terminal.render(REPORT, color=True)


def test_a_check_is_one_line_however_long_its_cure():
    cure = "pip install " + "x" * 300
    text = to_terminal.render(Report("doctor", "v", checks=(Check("FAIL", "torch", "old", cure),)))
    assert f"[FAIL] torch  old - {cure}" in text.splitlines()


def test_markup_in_user_text_stays_text():
    report = Report("scan", "[bold]x[/bold] :smile:", why="[red]", skipped=("[link=x]a",))
    text = to_terminal.render(report)
    assert "[bold]x[/bold] :smile:" in text
    assert "[link=x]a" in text


def test_markdown_cells_cannot_be_broken_out_of():
    report = Report("scan", "v", checks=(Check("ok", "a|b", "<script>\nnext *row*"),))
    (row,) = [line for line in to_markdown.render(report).splitlines() if "script" in line]
    assert row == r"| ok | a\|b | \<script\> next \*row\* |  |"


def test_an_empty_report_is_only_its_verdict():
    assert to_terminal.render(Report("scan", "Nothing found.")) == "Verdict  Nothing found.\n"


def test_a_run_shows_findings_without_a_line_too_and_what_to_do_about_each():
    found = Finding("The loss jumps.", cure="clip it", code="PIT703", rule="gradient-explodes")
    text = to_terminal.render(Report("profile", "v", findings=(found,), ranks=(Evidence(),)))
    assert "PIT703 The loss jumps.\n    → clip it\n" in text


def test_what_was_tuned_is_held_against_the_untouched():
    compared = (Comparison("step", "better", before=100.0, after=50.0, unit="ms"),)
    for command, titles in (("tune", ("untouched", "tuned")), ("compare", ("A", "B"))):
        report = Report(command, "v", comparisons=compared)
        head = to_terminal.render(report).split("metric", 1)[1].split("change")[0]
        assert tuple(head.split()[1:]) == titles
        assert f"<h2>{' against '.join(titles)}</h2>" in to_html.render(report)


def test_a_check_tells_of_a_finding_without_a_line():
    found = Finding("Old.", item="torch", code="PIT001")
    report = Report("doctor", "v", checks=(Check("FAIL", "torch", "old"),), findings=(found,))
    assert "Old." not in to_terminal.render(report)


def test_a_last_bar_stays_inside_its_column():
    ledger = Ledger(100.0, "cuda", (Row("floor", 99.6), Row("data", 0.4)))
    (*_, last) = bars(ledger)
    assert len(drawn(last)) == BAR


def test_a_long_name_of_a_file_leaves_the_line_its_place():
    where = Line("/p/denoising_diffusion_pytorch.py", 312)
    row = Row("floor", 100.0, "convolution_backward", where)
    shown = to_terminal.render(Report("profile", "v", ledger=Ledger(100.0, "cpu", (row,))))
    assert "…iffusion_pytorch.py:312 conv" in shown


def test_what_nobody_looked_into_is_called_so():
    for device, words in (("cuda", "GPU not measured"), ("cpu", "not inspected")):
        (bar,) = bars(Ledger(100.0, device, (Row("unseen", 100.0),), floor_known=False))
        assert bar.label == words
