from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger, Row
from pitstop.diagnose.ledger.gain import at_most, gain

LEDGER = Ledger(100.0, "cuda", (Row("above", 70.0), Row("floor", 30.0)))


def test_says_what_the_findings_can_save_together():
    findings = Finding(saving=0.30), Finding(saving=0.20), Finding()
    assert gain(findings, LEDGER) == (
        "at most 50 % of each step: 100 ms would be 50.0 ms, 2.0 times as fast"
    )


def test_a_small_gain_is_not_called_none():
    assert gain([Finding(saving=0.04)], LEDGER).endswith("would be 96.0 ms, 1.04 times as fast")


def test_is_the_sum_of_what_stands_beside_the_findings_notes_too():
    assert at_most([Finding(saving=0.3), Finding(saving=0.1, severity="note")]) == 0.4


def test_leaves_out_what_is_no_part_of_a_step():
    assert at_most([Finding(saving=0.3, per="epoch")]) == 0.0


def test_says_nothing_where_there_is_nothing():
    assert gain((), LEDGER) == ""
    assert gain([Finding(saving=0.3)], None) == ""
