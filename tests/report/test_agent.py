"""What a coding agent reads: short, ranked, with place, cost, bound, cure and command."""

from dataclasses import replace

import pytest

from examples import REPORT
from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.core.ledger import Ledger, Row
from pitstop.core.report import Check, Report
from pitstop.report import to_agent

SPAN = Span("net.py", 12, 5, 12, 20)
FOUND = Finding(
    "Tensor is filled on the CPU.", SPAN, saving=0.1, code="PIT202", rule="tensor-built-on-cpu"
)
LEDGER = Ledger(40.0, (Row("floor", 30.0), Row("sync", 10.0)))


def lines(*findings, **more):
    return to_agent.render(Report("profile", "v", findings=findings, **more)).splitlines()


def test_a_finding_has_place_cost_bound_cure_and_the_next_command():
    cured = replace(FOUND, cure="Name the device.", changes=("tf32", "loader"))
    *_, place, what, cost, cure, then, after = lines(cured, ledger=LEDGER, typed="train.py --lr 1")
    assert place.startswith("1. net.py:12 PIT202 tensor-built-on-cpu")
    assert what.strip() == "what: Tensor is filled on the CPU."
    assert cost.strip() == "cost: 4.00 ms of each step; gain: at most 10 % of each step"
    assert cure.strip() == "cure: Name the device."
    assert then.strip() == "next: pitstop tune --only tf32,loader train.py --lr 1"
    assert after == "after an edit: pitstop prove -- train.py --lr 1"


def test_what_was_not_measured_is_said_to_be():
    text = "\n".join(lines(replace(FOUND, saving=None)))
    assert "cost: not measured; gain: not known" in text


def test_safe_fixes_come_with_the_command_that_applies_them():
    fixed = replace(FOUND, fix=Fix("Name the device", (Edit(0, 1, ""),), safe=True))
    assert "   next: pitstop scan --fix --select PIT202 net.py" in lines(fixed)
    assert "   cure: Name the device" in lines(fixed)


def test_the_cure_of_a_rule_is_what_its_good_code_has_and_its_bad_code_has_not():
    doc = (
        "Summary.\n\nWhy.\n\nBad:\n    x = 1\n    y = far(x)\n\nGood:\n    x = 1\n    y = near(x)\n"
    )
    assert "   cure: write it like `y = near(x)`" in lines(FOUND, docs={"PIT202": doc})


@pytest.mark.parametrize("number", [1, 30, 3000])
def test_no_report_has_more_tokens_than_allowed(number):
    long = replace(FOUND, message="word " * 200)
    text = "\n".join(lines(*[long] * number, notes=("a note " * 500,) * 9, typed="t.py"))
    assert len(text) <= to_agent.MOST_TOKENS * to_agent.TOKEN_CHARACTERS
    assert text.index("1. net.py:12") < 400
    if number > 1:
        assert "worth less; --format json has all" in text


def test_checks_that_fail_are_shown_and_others_are_not():
    report = Report("doctor", "v", checks=(Check("ok", "a", "1"), Check("FAIL", "b", "2", "mend")))
    text = to_agent.render(report)
    assert "FAIL: b: 2; cure: mend" in text
    assert "ok: a" not in text


def test_it_has_no_colour_no_frames_and_ends_with_a_line():
    text = to_agent.render(REPORT)
    assert text.isprintable() is False
    assert "\x1b" not in text
    assert text.endswith("\n")
    assert not set("│─┌█") & set(text)
