"""What the first run says of the cost of all others."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Step
from pitstop.tune.first_run import check_run, costs_of, first_run
from pitstop.tune.runs.endings import Ending
from pitstop.tune.sandbox import landlock
from pitstop.tune.session import Session

LATE = Ending(-9, "did not end within 180 s", timed_out=True)
ASKED = Session(("python", "train.py"), ("train.py",), budget_minutes=6)


def run(*steps, wall_s, ending=None, **options):
    evidence = Evidence(steps=steps, **options)
    return SimpleNamespace(evidence=evidence, wall_s=wall_s, ending=ending)


def test_what_inspecting_took_is_no_part_of_a_start():
    """Two steps of a second, and ten seconds in which what was inspected is read."""
    steps = Step(1000.0, ended_s=4.0), Step(1000.0, ended_s=15.0)
    assert costs_of(run(*steps, wall_s=18.0), 20).start_s == pytest.approx(6.0)
    assert costs_of(run(*steps, wall_s=18.0, validation_s=2.0), 20).start_s == pytest.approx(8.0)
    assert costs_of(run(*steps, wall_s=11.0), 20).start_s > 0


def test_steps_too_long_for_the_budget_say_which_one_would_do():
    """Twelve batches a step: 17 s each, of which too few are there at half of the budget."""
    steps = [Step(17_000.0, ended_s=40.0 + 17 * at) for at in range(8)]
    with pytest.raises(
        PitstopError, match=r"8 steps in 3\.0 minutes, of 17\.0 s each.*--budget 15"
    ):
        check_run(run(*steps, wall_s=180.0, ending=LATE), ASKED.name)
    with pytest.raises(PitstopError, match=r"0 steps in 3\.0 minutes, half of the budget.*start"):
        check_run(run(wall_s=180.0, ending=LATE), ASKED.name)
    slow_start = [Step(160_000.0), *[Step(1000.0)] * 5]
    with pytest.raises(PitstopError, match="make it start faster"):
        check_run(run(*slow_start, wall_s=180.0, ending=LATE), ASKED.name)


def test_nothing_runs_unasked_where_writes_cannot_be_held_back(tmp_path, monkeypatch):
    monkeypatch.setattr(landlock, "missing", lambda: "this kernel (4.18) has no Landlock")
    with pytest.raises(PitstopError) as caught:
        first_run(ASKED, tmp_path, None)
    said = str(caught.value)
    assert said.startswith("this kernel (4.18) has no Landlock: what the script's programs")
    assert "give --in-place" in said
    assert "\n" not in said
    with pytest.raises(AttributeError, match="doing"):  # it begins, and None is no screen
        first_run(replace(ASKED, in_place=True), tmp_path, None)


def test_a_refused_write_is_said_in_place_of_what_the_script_died_of():
    refused = Ending(1, "Pitstop refused a write to out; give --in-place", refused="out")
    with pytest.raises(PitstopError, match=r"^train.py: Pitstop refused a write to out; give"):
        check_run(run(wall_s=9.0, ending=refused), ASKED.name)
