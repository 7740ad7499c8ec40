import pytest

from diagnose.builders import line, loader, recording, without_ledger
from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger, Row
from pitstop.core.rule import Rule
from pitstop.diagnose import rank
from pitstop.diagnose.rank import diagnose, ranked


def found(code, saving=None, severity="warning", claims=()):
    return Finding("x", code=code, saving=saving, severity=severity, claims=tuple(claims))


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


WAIT = Row("data", 40.0)
NARROW, WIDE = Row("precision", 20.0, "mm", line(1)), Row("precision", 10.0, "mm", line(2))
LEDGER = Ledger(100.0, "cuda", (WAIT, NARROW, WIDE, Row("floor", 30.0)))


def test_a_row_is_given_out_once_to_the_rule_that_says_best_what_to_do():
    wait, decoding = found("PIT101", 0.4, claims=[WAIT]), found("PIT110", 0.3, claims=[WAIT])
    assert order(decoding, wait, ledger=LEDGER) == [("PIT101", 0.4), ("PIT110", None)]


@pytest.mark.parametrize("code", ["PIT104", "PIT303", "PIT606", "PIT801", "PIT999"])
def test_no_rule_is_let_through_without_rows(code):
    assert order(found(code, 0.9), ledger=LEDGER) == [(code, None)]
    assert order(found(code, 0.9, claims=[Row("sync", 90.0)]), ledger=LEDGER) == [(code, None)]


def test_a_promise_is_no_larger_than_its_rows_whoever_makes_it():
    greedy = found("PIT999", 0.6, claims=[NARROW]), found("PIT998", 0.6, claims=[NARROW, WIDE])
    promised = dict(order(*greedy, ledger=LEDGER))
    assert sum(promised.values()) == pytest.approx(0.3)


def test_the_second_gets_what_the_first_leaves():
    tf32, bf16 = found("PIT301", 0.2, claims=[NARROW]), found("PIT302", 0.3, claims=[NARROW, WIDE])
    assert order(bf16, tf32, ledger=LEDGER) == [
        ("PIT301", pytest.approx(0.2)),
        ("PIT302", pytest.approx(0.1)),
    ]


def test_a_note_gets_what_warnings_leave():
    note = found("PIT101", 0.4, severity="note", claims=[WAIT])
    assert order(note, found("PIT999", 0.3, claims=[WAIT]), ledger=LEDGER) == [
        ("PIT999", 0.3),
        ("PIT101", pytest.approx(0.1)),
    ]


def test_a_finding_is_left_with_what_it_was_given_of_each_cause():
    (kept,) = ranked([found("PIT302", 0.25, claims=[NARROW, WIDE])], LEDGER)
    assert kept.claims == (Row("precision", 25.0),)


def test_a_wait_in_bursts_that_the_median_step_does_not_show_is_saved_once():
    bursts = [Row("data", 40.0)]
    ledger = Ledger(100.0, "cuda", (Row("data", 1.0), Row("floor", 99.0)))
    both = found("PIT101", 0.4, claims=bursts), found("PIT110", 0.3, claims=bursts)
    assert order(*both, ledger=ledger) == [("PIT101", 0.4), ("PIT110", None)]


def test_what_an_epoch_saves_is_no_part_of_a_step():
    epoch = Finding("x", code="PIT104", saving=0.5, per="epoch")
    assert order(epoch, ledger=LEDGER) == [("PIT104", 0.5)]


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


ADAM, CORE, BATCH = Row("optimizer", 20.0), Row("core", 40.0), Row("data", 20.0)
SHARED = (ADAM, CORE, BATCH, Row("floor", 20.0))


def test_on_a_cpu_what_is_spared_no_longer_waits_for_a_core_either():
    ledger = Ledger(100.0, "cpu", SHARED)
    assert ledger.at_stake(20.0) == pytest.approx(0.4)
    (kept,) = ranked([found("PIT606", 0.4, claims=[ADAM])], ledger)
    assert kept.saving == pytest.approx(0.4)  # half of all the work, and half of the waiting
    assert kept.claims == (Row("optimizer", 20.0), Row("core", 20.0))


@pytest.mark.parametrize(("device", "claim"), [("cuda", ADAM), ("cpu", BATCH)])
def test_a_wait_for_a_core_is_no_part_of_a_kernel_nor_of_a_wait_for_data(device, claim):
    (kept,) = ranked([found("PIT606", 0.2, claims=[claim])], Ledger(100.0, device, SHARED))
    assert kept.saving == pytest.approx(0.2)
