"""A track of fresh processes, none of which is started."""

import pytest

from pitstop.tune import processes
from pitstop.tune.processes import Course, Processes
from tune.scripted import CHANGES
from tune.simulation import COSTS


@pytest.fixture
def track(tmp_path, monkeypatch):
    def build(script, metrics=(), left_s=600.0, running=lambda _: None, **options):
        monkeypatch.setattr(processes, "run_trial", script.run_trial)
        monkeypatch.setattr(processes, "sample", lambda recording: recording)
        ends_s = 400.0 + left_s
        course = Course(("python", "t.py"), tmp_path, CHANGES, COSTS, ends_s, metrics, **options)
        return Processes(course, running, clock=lambda: 400.0)

    return build
