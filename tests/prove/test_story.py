"""Verdicts, and how they are told."""

from dataclasses import replace

import pytest

from pitstop.cli.prove import EXIT
from pitstop.core.comparison import Parted
from pitstop.prove.numbers import Numbers
from pitstop.prove.proof import Asked, timed
from pitstop.prove.story import IDENTICAL, Proof, build_report
from pitstop.report import to_markdown
from pitstop.tune.checked import RunError
from prove.simulated import HOLDS, TREES, proved, run_of

PARTED = Parted("loss 3 is 4 % off, 0.1 % allowed", "loss", 3, "Net.body.1", 0.04, 0.001)


@pytest.mark.parametrize(
    ("edit_ms", "outcome"), [(95.0, "better"), (105.0, "worse"), (100.0, "same")]
)
def test_time_tells_better_worse_and_same(edit_ms, outcome):
    proof = proved(100.0, edit_ms)
    assert proof.outcome == outcome
    assert build_report(proof, "train.py", 5).verdict.startswith(
        f"{outcome}: the working tree against 1a2b3c4d5"
    )


def test_noise_beyond_the_gain_is_inconclusive_with_the_command_to_go_on():
    report = build_report(proved(100.0, 97.0, noise=0.1), "train.py --lr 1", 5)
    assert report.proved == "inconclusive"
    assert report.next.endswith("pitstop prove --budget 15 -- train.py --lr 1")


def test_numbers_that_part_outweigh_any_gain():
    proof = replace(proved(100.0, 50.0), numbers=Numbers(PARTED))
    report = build_report(proof, "train.py", 5)
    assert report.proved == "drifted"
    assert report.where == "step 3, loss, Net.body.1"
    assert report.parted == PARTED
    assert "loss 3 is 4 % off" in to_markdown.render(report)


def test_each_verdict_has_an_exit_code_of_its_own():
    assert len(set(EXIT.values())) == len(EXIT)
    assert EXIT["better"] == 0


def test_identical_trees_are_said_to_be():
    same = replace(TREES, changed=())
    assert IDENTICAL in build_report(Proof(same, HOLDS), "train.py", 5).notes


def test_pairs_until_the_budget_was_spent_count():
    seen = []

    def sample(edit):
        seen.append(edit)
        if len(seen) > 13:
            raise RunError("not-applicable", "no room in the budget", hasty=True)
        return run_of(100.0 if not edit else 90.0 + len(seen) % 2)

    proof = timed(Proof(TREES, HOLDS), Asked(()), sample, 24)
    assert proof.outcome == "better"
    assert proof.comparisons[0].pairs == 6


def test_memory_that_was_not_measured_is_no_verdict():
    proof = proved(100.0, 50.0, goal="memory")
    assert proof.outcome == "inconclusive"
    assert "not measured" in proof.comparisons[0].reason


def test_equal_code_is_never_better_or_worse():
    outcomes = [
        proved(100.0, 100.0, noise, seed).outcome for noise in (0.003, 0.03) for seed in range(50)
    ]
    assert not {"better", "worse"} & set(outcomes)
