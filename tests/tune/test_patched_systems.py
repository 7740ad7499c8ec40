"""Real systems: patched source alone gives the numbers that a trial with the changes gave."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Plan, Wanted
from pitstop.tune.runs.trials import Settings, run_trial

SYSTEMS = Path(__file__).parents[2] / "src" / "pitstop" / "workloads"
STEPS = 4
CHANGES = {
    "frame_interpolation": ("channels-last", "fused-optimizer", "loader"),
    "tiled_vae": ("channels-last",),
    "pose_regression": ("fused-optimizer",),
    "lora_diffusion": ("fused-optimizer",),
    "spike_deblur": ("fused-optimizer", "loader"),
}
ARGUMENTS = {"spike_deblur": ("--accumulate", "1")}
OPTIONS = {"loader": {"workers": 1, "pin": False}}


def numbers(words, changes, folder, inspect=0):
    """The losses of a run, or what its model returned, and the run itself."""
    settings = Settings(STEPS + 4 * inspect, warmup=1, inspect=inspect)
    plan = Plan(tuple(Wanted(each, OPTIONS.get(each, {})) for each in changes), outputs=True)
    run = run_trial(words, plan, folder, settings)
    assert not run.ending.error
    outputs = [list(each.values) for each in run.readings.outputs]
    return run, run.readings.known_losses or outputs


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_patched_source_alone_gives_the_numbers_of_the_trial(name, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    project = tmp_path / "project"
    shutil.copytree(SYSTEMS / name, project / name)
    monkeypatch.chdir(project)
    words = [sys.executable, "-m", f"{name}.slow", "--small", *ARGUMENTS.get(name, ())]
    seen, _ = numbers(words, (), tmp_path / "seen", inspect=1)
    trial, proved = numbers(words, CHANGES[name], tmp_path / "trial")
    kept = [
        Wanted(each.name, each.options)
        for each in trial.outcomes
        if each.applied and not each.declined
    ]
    assert [each.name for each in kept] == list(CHANGES[name])
    patch = make_patch(tuple(kept), seen.evidence, words, project)
    assert not patch.unplaced
    subprocess.run(["git", "apply"], input=patch.text, text=True, cwd=project, check=True)
    _, alone = numbers(words, (), tmp_path / "alone")
    assert alone == proved
    assert len(alone) >= STEPS
