import os
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from examples import EVIDENCE, REPORT
from pitstop.core.evidence import Line, Step
from pitstop.core.finding import Finding, Span
from pitstop.core.ledger import Ledger, Row
from pitstop.core.report import Report
from pitstop.report.to_html import render

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


def test_everything_hostile_is_escaped():
    span = Span(f"/tmp/{HOSTILE}.py", 1, 1, 1, 1)
    finding = Finding(HOSTILE, span, cure=HOSTILE, excerpt=(HOSTILE,), code="PIT201", rule=HOSTILE)
    row = Row("python", 1.0, HOSTILE, Line(HOSTILE, 1))
    call = replace(EVIDENCE.calls[0], path=HOSTILE, kind=HOSTILE)
    page = render(
        Report(
            HOSTILE,
            HOSTILE,
            HOSTILE,
            HOSTILE,
            HOSTILE,
            ledger=Ledger(1.0, "cuda", (row,)),
            findings=(finding,),
            ranks=(replace(EVIDENCE, calls=(call,)),),
            notes=(HOSTILE,),
        )
    )
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;") >= 10


def test_nothing_is_loaded_from_anywhere():
    page = render(REPORT)
    assert not re.findall(r"(?:src|href)\s*=|url\(|@import|https?://", page)


def test_an_empty_report_is_a_page_too():
    page = render(Report("scan", "Nothing found."))
    assert "Nothing found." in page
    assert "<svg" not in page


def test_charts_say_in_words_what_they_show():
    page = render(REPORT)
    labels = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert len(labels) == 3
    assert "hardware at full speed 12.5 ms, 30 %." in labels[0]
    assert "median 41.0 ms" in labels[1]


def test_two_ranks_have_lanes():
    slow = replace(EVIDENCE, rank=1, steps=(Step(60.0, 30.0, other_ms=30.0),) * 8)
    page = render(replace(REPORT, ranks=(EVIDENCE, slow)))
    assert "rank 1" in page
    assert "waiting for data: 30.0 ms" in page


def test_a_long_run_stays_small():
    steps = tuple(Step(40.0 + index % 7, other_ms=40.0) for index in range(200_000))
    page = render(replace(REPORT, ranks=(replace(EVIDENCE, steps=steps),)))
    assert len(page.encode()) < 2_000_000


@pytest.mark.skipif(
    BROWSER is None and "PITSTOP_BROWSER" not in os.environ, reason="no browser on this machine"
)
def test_a_browser_shows_it_without_complaint(tmp_path):
    assert BROWSER, "CI must install a browser"
    page = tmp_path / "report.html"
    page.write_text(render(REPORT), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    shown = subprocess.run(
        [BROWSER, *options, "--enable-logging=stderr", "--dump-dom", page.as_uri()],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.returncode == 0, shown.stderr
    assert "CONSOLE" not in shown.stderr
    for text in ("Where the step goes", "sync-in-hot-loop", "Step times over the run", "Memory"):
        assert text in shown.stdout


def test_words_between_backticks_are_code_and_still_escaped():
    found = Finding("`a<b` and c<d", code="PIT201", rule="x")
    assert "<code>a&lt;b</code> and c&lt;d" in render(Report("profile", "v", findings=(found,)))
    lonely = Finding("one ` alone <", code="PIT201", rule="x")
    assert "one ` alone &lt;" in render(Report("profile", "v", findings=(lonely,)))


def test_the_page_says_what_is_to_be_gained():
    assert "at most 40 %" in render(Report("profile", "v", gain="at most 40 %"))
