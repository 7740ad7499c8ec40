"""Recorded machines, replayed: each must yield exactly its findings, with a cure to type."""

from pathlib import Path

import pytest

from pitstop.core import store
from pitstop.core.machine import Machine
from pitstop.doctor.examine import examine, healthy

MACHINES = Path(__file__).parents[1] / "machines"
EXPECTED: dict[str, dict[str, tuple[str, ...]]] = {
    "rtx5070_cu118": {
        "PIT001": ("error", "pip install --upgrade torch", "whl/cu128"),
        "PIT002": ("error", "pip uninstall -y cupy-cuda11x", "cupy-cuda12x"),
        "PIT006": ("note", "persistent_workers=True", "__main__"),
    },
    "windows_8_workers": {"PIT006": ("warning", "persistent_workers=True", "__main__")},
    "container_64mb_shm": {"PIT005": ("error", "docker run --shm-size=8g")},
    "torchvision_mismatch": {"PIT003": ("error", "pip install torch==2.7.1 torchvision", "cu126")},
    "cpu_build_beside_gpu": {"PIT010": ("error", "pip install", "whl/cu128")},
    "h200": {},
    "this_machine": {},
}


def recorded(name):
    return store.load(MACHINES / f"{name}.json", Machine)


@pytest.mark.parametrize("name", EXPECTED)
def test_yields_exactly_these_findings(name):
    report = examine(recorded(name))
    assert {found.code for found in report.findings} == set(EXPECTED[name])
    for found in report.findings:
        severity, *words = EXPECTED[name][found.code]
        assert found.severity == severity
        assert all(word in found.cure for word in words), found.cure


@pytest.mark.parametrize("name", EXPECTED)
def test_says_the_worst_first_and_documents_every_code(name):
    report = examine(recorded(name))
    assert set(report.docs) == {found.code for found in report.findings}
    assert healthy(report) == (not EXPECTED[name])
    if report.findings:
        worst = report.findings[0]
        assert (report.next, report.where) == (worst.cure, worst.item)


def test_reports_the_two_values_that_do_not_fit():
    torch, cupy, _ = examine(recorded("rtx5070_cu118")).findings
    assert torch.message == (
        "torch 2.7.1+cu118 has no sm_120 for NVIDIA GeForce RTX 5070, only sm_37 to sm_90"
    )
    assert cupy.message.startswith("cupy 13.4.1 has no sm_120")


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda path: path.stem)
def test_every_recording_can_be_examined(path):
    report = examine(store.load(path, Machine))
    assert report.verdict
    assert all(check.value for check in report.checks)
