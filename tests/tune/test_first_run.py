"""What the first run says of the cost of all others."""

from types import SimpleNamespace

import pytest

from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Step
from pitstop.tune.endings import Ending
from pitstop.tune.first_run import _check, _costs
from pitstop.tune.session import Session

LATE = Ending(-9, "did not end within 180 s", timed_out=True)
ASKED = Session(("python", "train.py"), ("train.py",), budget_minutes=6)


def run(*steps, wall_s, ending=None, **options):
    evidence = Evidence(steps=steps, **options)
    return SimpleNamespace(evidence=evidence, wall_s=wall_s, ending=ending)


def test_what_inspecting_took_is_no_part_of_a_start():
    """Two steps of a second, and ten seconds in which what was inspected is read."""
    steps = Step(1000.0, ended_s=4.0), Step(1000.0, ended_s=15.0)
    assert _costs(run(*steps, wall_s=18.0), 20).start_s == pytest.approx(6.0)
    assert _costs(run(*steps, wall_s=18.0, validation_s=2.0), 20).start_s == pytest.approx(8.0)
    assert _costs(run(*steps, wall_s=11.0), 20).start_s > 0


def test_a_script_that_ends_by_itself_is_planned_by_its_length():
    steps = [Step(1800.0, ended_s=10.0 + 1.8 * at) for at in range(12)]
    costs = _costs(run(*steps, wall_s=40.0), None)
    assert (costs.length, costs.steps, costs.pairs) == (12, 9, 4)
    more = _costs(run(*steps, *steps[-2:], wall_s=40.0), None)
    assert (more.length, more.pairs) == (None, 6)
    assert _costs(run(*steps, wall_s=40.0), 5).steps == 5


def test_steps_too_long_for_the_budget_say_which_one_would_do():
    """Twelve batches a step: 17 s each, of which none is warm when half of the budget is spent."""
    steps = Step(50_000.0, ended_s=60.0), *(Step(17_000.0, ended_s=60.0 + at) for at in (17, 34))
    with pytest.raises(PitstopError, match=r"3 steps in 3 minutes, of 17\.0 s each.*--budget \d+"):
        _check(run(*steps, wall_s=180.0, ending=LATE), ASKED)
    with pytest.raises(PitstopError, match=r"0 steps in 3 minutes, half of the budget.*start"):
        _check(run(wall_s=180.0, ending=LATE), ASKED)
