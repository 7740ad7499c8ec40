import json
from dataclasses import replace

import pytest

from examples import REPORT
from pitstop.core import store
from pitstop.core.finding import Finding, Span
from pitstop.core.printable import printable, printable_lines
from pitstop.core.report import Report
from pitstop.report import to_github, to_html, to_json, to_markdown, to_sarif, to_terminal

HOSTILE = {
    "sets the clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "sets the title": "\x1b]0;gone\x1b\\",
    "clears the screen": "\x1b[2J",
    "clears it by C1": "\x9b2J",
    "begins a line": "a.py\npitstop: all is well",
    "goes back": "a.py\rb.py",
    "begins a line too": "a\u2028b",
    "turns the text round": "a\u202eyp.b",
    "is no text": "a\udcff.py",
}
each_hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)


def is_harmless(text):
    text.encode("utf-8")
    return all(each.isprintable() or each in "\n\t" for each in text)


@each_hostile
def test_what_is_not_visible_is_written_out_on_one_line(text):
    assert printable(text).isprintable()


@pytest.mark.parametrize("text", ["é → 漢字 🙂", r"C:\new\x1b.py", ""])
def test_what_is_visible_stays_as_it_is(text):
    assert printable(text) == text


def test_a_text_with_lines_keeps_them():
    assert printable_lines("a\n\tb\x1b\r\n") == "a\n\tb\\x1b\\r\n"


@each_hostile
@pytest.mark.parametrize(
    "renderer", [to_terminal, to_markdown, to_html, to_github, to_json, to_sarif]
)
def test_no_renderer_lets_it_through(renderer, text):
    finding = Finding(text, Span(text, 1, 1, 1, 1), excerpt=(text,), code="PIT201", rule="r")
    report = replace(REPORT, verdict=text, findings=(finding,), notes=(text,), skipped=(text,))
    assert is_harmless(renderer.render(report))


def test_json_loses_nothing_by_it():
    report = Report("scan", "\x9b2J\x1b\n\u202e")
    assert store.loads(to_json.render(report), Report) == report
    assert json.loads(to_json.render(Report("scan", "\udcff")))["verdict"] == r"\udcff"
