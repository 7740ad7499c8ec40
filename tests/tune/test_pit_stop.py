"""What is told at the end of a search: where the step goes, how to apply the patch."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pitstop.core.evidence import Evidence, Step
from pitstop.core.report import Report
from pitstop.tune import pit_stop
from pitstop.tune.found import Found
from pitstop.tune.plan import Wanted
from pitstop.tune.processes import Course
from tune.simulation import COSTS
from tune.sourced import NET, TRAIN, evidence_of, write


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


@pytest.mark.parametrize("at", ["project", "here"])
def test_a_patch_says_how_to_apply_it_from_this_folder(at, tmp_path, monkeypatch):
    project, here = write(tmp_path / "project", train=TRAIN, net=NET), tmp_path / at
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    asked = SimpleNamespace(words=[os.path.relpath(project / "train.py", here)])
    profile = SimpleNamespace(ranks=[evidence_of(project, base=here)])
    found = Found(kept=(Wanted("cudnn-benchmark"),))
    (line,) = pit_stop._patched(asked, Path("tuned.patch"), found, profile)
    command, _, what = line.partition(" writes into the source: ")
    assert what == "cudnn-benchmark"
    assert ("-C" in command) is (at == "here")
    assert os.system(command) == 0
    assert "cudnn.benchmark = True" in (project / "train.py").read_text()
