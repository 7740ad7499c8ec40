"""The command ``pitstop doctor`` from arguments to exit code."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pitstop.cli import doctor
from pitstop.cli.main import run
from pitstop.core.machine import Limits, Machine, Package
from pitstop.doctor import limits
from pitstop.doctor.limits import Measured

MACHINES = Path(__file__).parents[1] / "machines"
HEALTHY = Machine(cores=4, packages=(Package("torch", "2.13.0+cpu"),))


@pytest.fixture
def healthy_machine(monkeypatch):
    def read_machine(workers, batch_bytes):
        return replace(HEALTHY, workers=workers, batch_bytes=batch_bytes)

    measured = Measured((Limits("cpu", fp32_flops=1e11),), "limits: in doubt")
    monkeypatch.setattr(doctor, "read_machine", read_machine)
    monkeypatch.setattr(limits, "limits_of", lambda machine, remeasure: measured)


def test_recorded_machine_with_findings(capsys):
    assert run(["doctor", "--machine", str(MACHINES / "rtx5070_cu118.json")]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("Verdict")
    assert "[FAIL] torch" in printed
    assert "pip install --upgrade torch" in printed


def test_json_is_the_report(capsys):
    machine = str(MACHINES / "windows_8_workers.json")
    assert run(["doctor", "--machine", machine, "--format", "json", "--workers", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] == "doctor"


@pytest.mark.usefixtures("healthy_machine")
def test_healthy_machine_with_its_limits(capsys):
    assert run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "cpu fp32" in printed
    assert "limits: in doubt" in printed


@pytest.mark.usefixtures("healthy_machine")
def test_workers_are_judged_and_limits_left_out(capsys):
    assert run(["doctor", "--workers", "8", "--no-limits"]) == 1
    printed = capsys.readouterr().out
    assert "PIT011" in printed
    assert "fp32" not in printed


@pytest.mark.usefixtures("healthy_machine")
def test_saved_machine_can_be_judged_elsewhere(tmp_path, capsys):
    path = tmp_path / "box.json"
    assert run(["doctor", "--save", str(path), "--output", str(tmp_path / "report.md")]) == 0
    assert (tmp_path / "report.md").read_text().startswith("### pitstop doctor")
    assert run(["doctor", "--machine", str(path)]) == 0
    assert "cpu fp32" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1, "kind": "Machine", "cores": "many"}'])
def test_recording_that_cannot_be_read(tmp_path, capsys, text):
    path = tmp_path / "box.json"
    path.write_text(text)
    assert run(["doctor", "--machine", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"pitstop: {path}")
    assert printed.out == ""
