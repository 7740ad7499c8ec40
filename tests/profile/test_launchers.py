"""Frameworks that start or drive the script: their steps are found, and their numbers stay."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

BESIDE_PYTHON = Path(sys.executable).parent


def test_accelerate_launches_the_script_and_its_steps_are_found(bare, profiled):
    pytest.importorskip("accelerate")
    launcher = ("--", str(BESIDE_PYTHON / "accelerate"), "launch", "--cpu", "--num_processes", "1")
    without, with_us = bare("accelerated.py"), profiled("accelerated.py", ours=launcher)
    assert with_us.out == without.out
    evidence = with_us.evidence
    (loader,) = evidence.loaders  # the one that accelerate wraps into its own, by its first line
    assert (evidence.step_kind, len(evidence.steps), loader.batches) == ("optimizer", 12, 24)
    assert Path(loader.made.path).name == "accelerated.py"
    assert all(step.gradient_norm for step in evidence.steps)


def test_lightning_fits_and_its_validation_is_apart(bare, profiled):
    pytest.importorskip("lightning")
    without, with_us = bare("lightning_fit.py"), profiled("lightning_fit.py")
    assert without.code == with_us.code == 0, with_us.err.decode()
    assert with_us.out == without.out
    evidence = with_us.evidence
    assert (evidence.step_kind, len(evidence.steps)) == ("optimizer", 32)
    assert {loader.batches for loader in evidence.loaders if loader.trains} == {32}
    assert evidence.validation_s > 0
    assert Path(evidence.optimizers[0].made.path).name == "lightning_fit.py"
