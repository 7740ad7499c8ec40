"""Where the step goes with all that was kept."""

import time
from types import SimpleNamespace

import pytest

from pitstop.core.evidence import Evidence, Step
from pitstop.core.report import Report
from pitstop.tune import pit_stop
from pitstop.tune.found import Found
from pitstop.tune.plan import Wanted
from pitstop.tune.processes import Course
from tune.simulation import COSTS


@pytest.mark.parametrize(
    ("steps_ms", "step_ms"),
    [
        ([100, 101, 99, 100], 100),
        ([12, 350, 12, 12, 360], None),  # two workers, and both are too slow
    ],
)
def test_a_step_that_is_none_of_the_script_has_no_ledger(steps_ms, step_ms, tmp_path, monkeypatch):
    evidence = Evidence(steps=tuple(map(Step, steps_ms)))
    ended = SimpleNamespace(error="")
    seen = SimpleNamespace(evidences=(evidence,))
    run = SimpleNamespace(evidence=evidence, ending=ended, recording=seen)
    monkeypatch.setattr(pit_stop, "look_closely", lambda *_: run)
    course = Course(("python", "t.py"), tmp_path, {}, COSTS, time.monotonic() + 99)
    screen = SimpleNamespace(doing=lambda _: None)
    found = Found(kept=(Wanted("loader"),))
    ledger = pit_stop._after(None, course, found, Report("tune", ""), screen)
    assert (ledger and ledger.step_ms) == step_ms
