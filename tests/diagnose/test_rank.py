import pytest

from diagnose.builders import line, loader, recording, without_ledger
from pitstop.core.finding import Finding
from pitstop.core.ledger import Row
from pitstop.core.rule import Rule
from pitstop.diagnose import rank
from pitstop.diagnose.rank import diagnose, ranked


def found(code, saving=None, severity="warning"):
    return Finding("x", code=code, saving=saving, severity=severity)


def order(*findings, ledger=None):
    return [(each.code, each.saving) for each in ranked(findings, ledger)]


def test_errors_come_first_then_warnings_then_notes_each_by_saving_and_code():
    findings = (
        found("PIT900", 0.1, "note"),
        found("PIT903"),
        found("PIT902"),
        found("PIT901", severity="note"),
        found("PIT904", 0.3),
        found("PIT905", severity="error"),
    )
    codes = [code for code, _ in order(*findings)]
    assert codes == ["PIT905", "PIT904", "PIT902", "PIT903", "PIT900", "PIT901"]


def test_one_wait_is_saved_once():
    ledger = recording(Row("data", 40), device="cuda").ledger
    assert order(
        found("PIT101", 0.4), found("PIT110", 0.3), found("PIT102", 0.4), ledger=ledger
    ) == [
        ("PIT102", 0.4),
        ("PIT101", None),
        ("PIT110", None),
    ]


def test_a_wait_in_bursts_that_the_median_step_does_not_show_is_saved_once():
    ledger = recording(Row("data", 1), device="cuda").ledger
    assert order(found("PIT101", 0.4), found("PIT110", 0.3), ledger=ledger) == [
        ("PIT101", 0.4),
        ("PIT110", None),
    ]


def test_the_second_gets_what_the_first_leaves():
    ledger = recording(Row("precision", 30), device="cuda").ledger
    assert order(found("PIT302", 0.3), found("PIT301", 0.2), ledger=ledger) == [
        ("PIT301", pytest.approx(0.2)),
        ("PIT302", pytest.approx(0.1)),
    ]


def test_claims_on_different_causes_and_of_unknown_rules_are_left_alone():
    ledger = recording(Row("data", 40), Row("sync", 5), device="cuda").ledger
    findings = found("PIT102", 0.4), found("PIT201", 0.05), found("PIT999", 0.9), found("PIT403")
    assert order(*findings, ledger=ledger) == [
        ("PIT999", 0.9),
        ("PIT102", 0.4),
        ("PIT201", 0.05),
        ("PIT403", None),
    ]


def test_runs_every_rule_of_the_room():
    run = recording(Row("data", 40), loaders=(loader(length=0),))
    assert [each.code for each in diagnose(run)] == ["PIT105", "PIT102"]
    assert diagnose(run)[1].span.line == line(5).line


def test_a_run_without_steps_is_no_error_of_ours():
    assert diagnose(without_ledger()) == ()


def test_a_rule_that_fails_is_a_note_and_hides_nothing(monkeypatch):
    def breaks(_):
        raise ValueError("no such thing")

    rules = [Rule("PIT998", "breaks", "Breaks.", breaks), Rule("PIT999", "finds", "Finds.", finds)]
    monkeypatch.setattr(rank, "load_rules", lambda _: rules)
    first, second = diagnose(without_ledger())
    assert (first.code, second.code, second.rule, second.severity) == (
        "PIT999",
        "PIT998",
        "breaks",
        "note",
    )
    assert second.message == "This could not be checked: ValueError: no such thing"


def finds(_):
    yield Finding("here")
