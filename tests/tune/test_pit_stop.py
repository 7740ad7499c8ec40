"""What is told at the end of a search: where the step goes, how to apply the patch."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.core.ledger import Ledger
from pitstop.tune import handout, pit_stop
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
    (line,) = handout.patched(asked, Path("tuned.toml"), found.kept, profile)
    command, _, what = line.partition(" writes into the source: ")
    assert what == "cudnn-benchmark"
    assert ("-C" in command) is (at == "here")
    assert os.system(command) == 0
    assert "cudnn.benchmark = True" in (project / "train.py").read_text()


@pytest.mark.parametrize(("step_ms", "like"), [(58.0, True), (70.0, True), (130.0, False)])
def test_a_last_look_at_other_steps_than_the_proof_s_is_not_shown(step_ms, like):
    proof = Comparison("step", "better", 0.6, 0.55, 0.65, 6, "", before=100.0, after=60.0)
    assert pit_stop._is_like(Ledger(step_ms, "cuda", ()), Found(proof=(proof,))) is like
    assert pit_stop._is_like(Ledger(step_ms, "cuda", ()), Found())


def test_a_full_disk_is_said_in_the_report_and_does_not_cost_it(tmp_path, monkeypatch):
    project = write(tmp_path / "project", train=TRAIN, net=NET)
    monkeypatch.chdir(project)
    asked = SimpleNamespace(words=["train.py"], typed=("train.py",), goal="time")
    profile = SimpleNamespace(ranks=[evidence_of(project)], machine=None)
    found = Found(kept=(Wanted("cudnn-benchmark"),))

    def full(path, *_):
        raise PitstopError(f"cannot write {path}: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pitstop.core.store.write_bytes", full)
        kept = handout.Handout(asked, Path("tuned.toml"), profile)
        assert kept.write(found) == ""
        (said,) = kept.problems
        assert "tuned.toml: No space left" in said
        (said,) = handout.patched(asked, Path("tuned.toml"), found.kept, profile)
        assert "tuned.patch: No space left" in said
    assert (kept.write(found), kept.problems) == ("tuned.toml", ())
