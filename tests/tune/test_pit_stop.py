"""What is told at the end of a search: where the step goes, how to apply the patch."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pitstop.tune import pit_stop
from pitstop.tune.found import Found
from pitstop.tune.plan import Wanted
from tune.sourced import NET, TRAIN, evidence_of, write


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
