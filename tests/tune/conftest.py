"""Fresh runs, none of which is started."""

import pytest

from pitstop.tune.runs import fresh
from pitstop.tune.runs.costs import Costs
from pitstop.tune.runs.fresh import Course, FreshRuns
from tune.scripted import CHANGES


@pytest.fixture
def track(tmp_path, monkeypatch):
    def build(script, metrics=(), left_s=600.0, running=lambda _: None, **options):
        monkeypatch.setattr(fresh, "run_trial", script.run_trial)
        monkeypatch.setattr(fresh, "sample", lambda recording: recording)
        costs = Costs(start_s=5.0, step_s=0.1, steps=20)
        ends_s = 400.0 + left_s
        course = Course(("python", "t.py"), tmp_path, CHANGES, costs, ends_s, metrics, **options)
        return FreshRuns(course, running, clock=lambda: 400.0)

    return build
