"""What a search came to, in words."""

from dataclasses import replace

import pytest

from pitstop.core.comparison import Comparison
from pitstop.core.finding import Finding, Span
from pitstop.core.ledger import Ledger, Row
from pitstop.core.report import Report
from pitstop.core.trial import Trial
from pitstop.report import to_html, to_markdown, to_terminal
from pitstop.report.wording import gain, trial_note
from pitstop.tune.found import Edits, Found, WhatIf
from pitstop.tune.plan import Wanted
from pitstop.tune.report import About, build_report, proved, said

PROFILE = Report("profile", "v", ledger=Ledger(100.0, "cpu", (Row("floor", 60), Row("data", 40))))
BETTER = Comparison("step", "better", 0.6, 0.55, 0.65, 6, "", before=100.0, after=60.0, unit="ms")
KEPT = Found(
    trials=(Trial("loader workers=2", "kept", step=BETTER), Trial("bf16", "drifted")),
    kept=(Wanted("loader", {"workers": 2}),),
    proof=(BETTER,),
)


def test_a_proved_gain_is_the_verdict_with_its_interval():
    report = build_report(PROFILE, KEPT, About("train.py", command="train.py", tuned="tuned.toml"))
    assert report.verdict == (
        "train.py: step 60.0 ms instead of 100 ms, -40 % (-45 to -35 %), and the numbers hold."
    )
    assert report.why == "Kept: loader workers=2. 2 trials: 1 kept, 1 drifted."
    assert report.next == "pitstop run --with tuned.toml train.py"
    assert report.trials == KEPT.trials
    assert proved(KEPT, "time")


def test_nothing_kept_since_the_numbers_suffered():
    report = build_report(PROFILE, Found(trials=(Trial("bf16", "drifted"),)), About("train.py"))
    assert "makes it faster and keeps its numbers" in report.verdict


def test_nothing_kept_is_said_plainly():
    found = Found(trials=(Trial("tf32", "not-faster"),))
    report = build_report(PROFILE, found, About("train.py"))
    assert report.verdict == (
        "train.py: nothing that was tried makes it faster. It is left as it is."
    )
    assert report.next == ""
    assert not proved(found, "time")
    noisy = build_report(PROFILE, Found(trials=(Trial("tf32", "noisy"),)), About("train.py"))
    assert "is proved faster; some of it drowned in noise" in noisy.verdict
    assert "quieter machine" in noisy.next


def test_a_sum_that_is_no_gain_is_not_handed_out():
    worse = Comparison("step", "worse", 1.2, 1.1, 1.3, 6, before=100.0, after=120.0, unit="ms")
    found = Found(kept=KEPT.kept, proof=(worse,))
    assert not proved(found, "time")
    assert "together what was kept is no gain" in build_report(PROFILE, found, About("x")).verdict


def test_the_waterfalls_stand_side_by_side_and_add_up():
    after = Ledger(62.0, "cpu", (Row("floor", 60), Row("copy", 2)))
    report = build_report(PROFILE, KEPT, About("x", after=after))
    lines = to_terminal.render(report).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("where the step goes"))
    words = [" ".join(line.replace("█", "").split()) for line in lines[begin : begin + 5]]
    assert words == [
        "where the step goes untouched tuned most of it",
        "hardware at full speed 60.0 ms 60.0 ms",
        "copies 0 ms 2.00 ms ▏",
        "waiting for data 40.0 ms 0 ms",
        "step 100 ms 62.0 ms",
    ]
    html = to_html.render(report)
    assert "tuned 62.0 ms" in html
    assert html.count('height="3"') == 4  # three causes and the step
    page = to_markdown.render(report)
    assert "| waiting for data | 40.0 ms | 0 ms |  |" in page
    assert "| step | 100 ms | 62.0 ms |  |" in page


def test_what_could_be_gained_at_most_is_said_only_where_nothing_was():
    profile = replace(PROFILE, findings=(Finding(saving=0.4, changes=("loader",)),))
    assert build_report(profile, Found(), About("x")).gain.startswith("at most 40 %")
    assert not build_report(profile, KEPT, About("x")).gain


def test_what_was_tried_is_no_promise_any_more():
    waits, rounds = (Finding(saving=0.3, changes=(name,)) for name in ("loader", "bf16"))
    profile = replace(PROFILE, findings=(waits, rounds))
    tried = Found(trials=(Trial("loader workers=2", "not-faster"), Trial("bf16", "noisy")))
    report = build_report(profile, tried, About("x"))
    assert [each.saving for each in report.findings] == [None, 0.3]
    assert report.gain.startswith("at most 30 %")


def test_what_was_tried_comes_first_and_only_the_dearest_findings_after_it():
    many = tuple(Finding(f"number {n}", code="PIT000") for n in range(5))
    text = to_terminal.render(build_report(replace(PROFILE, findings=many), KEPT, About("x")))
    assert text.index("loader workers=2") < text.index("where the step goes")
    assert "number 2" in text
    assert "number 3" not in text
    assert "and 2 findings more" in text


def test_a_trial_in_a_line():
    assert said(KEPT.trials[0]) == "loader workers=2: kept, 40 % less time"
    assert said(Trial("compile", "failed", note="E: x")) == "compile: failed (E: x)"


def test_gain_memory_and_drift_of_a_trial():
    memory = Comparison("peak memory", "inconclusive", 1.5, before=2.0**30, after=1.5 * 2**30)
    trial = Trial("bf16", "kept", step=BETTER, memory=memory, drift=3e-6, tolerance=1e-5)
    assert gain(trial) == "40 % (35 to 45 %)"
    assert trial_note(trial) == ("peak 1.5 GiB (+50 %); numbers 0.00030 % apart, 0.0010 % allowed")
    assert trial_note(Trial("x", "drifted", drift=0.3, note="loss 1 is off")) == "loss 1 is off"
    assert gain(Trial("x", "failed")) == "n/a"


def test_what_the_proof_has_refuted_is_not_called_kept():
    worse = replace(BETTER, verdict="worse", ratio=1.5)
    report = build_report(PROFILE, replace(KEPT, proof=(worse,)), About("train.py"))
    assert report.why.startswith("Kept until the proof: loader workers=2.")


def test_what_broke_the_proof_is_not_handed_out():
    found = replace(KEPT, broken="CUDA out of memory")
    assert not proved(found, "time")
    assert (
        "broke the proof: CUDA out of memory"
        in build_report(PROFILE, found, About("train.py")).verdict
    )


def test_what_an_edit_is_worth_comes_first_and_at_its_finding():
    at = Wanted("leave-out", {"at": "loss.py:96", "why": "zero"})
    tried = WhatIf((at,), replace(BETTER, ratio=0.66), "same numbers in 12 of 12 twins", ("a log",))
    trial = Trial("leave-out at=loss.py:96 why=zero", "what-if", step=BETTER, note=tried.numbers)
    edits = Edits((at,), "the patched source computes the same", ("by hand: model.py:42",))
    found = Found(trials=(trial,), what_if=tried, patched=edits)
    place = Span("net/loss.py", 96, 1, 96, 1)
    asks = Finding("zero", span=place, cure="branch", changes=("leave-out",), saving=0.5)
    report = build_report(
        replace(PROFILE, findings=(asks,)), found, About("train.py", patch="t.patch")
    )
    assert report.verdict.startswith(
        "train.py: an edit at loss.py:96 is worth 34 %: tried, same numbers in 12 of 12 twins"
    )
    assert report.next == "git apply t.patch"
    assert "left out with it: a log" in report.notes
    assert {edits.said, *edits.by_hand} <= {*report.notes}
    (told,) = report.findings
    assert told.saving == pytest.approx(0.4)
    assert told.cure == "branch; tried: worth 40 %, same numbers in 12 of 12 twins"
