"""`pitstop profile` on an NVIDIA GPU: the same output, and what only a GPU can show."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pitstop.profile.read import runs
from pitstop.profile.read.collect import collect

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
preparing = nn.Conv2d(8, 8, 3).cuda()
for _ in range(30):
    preparing(torch.randn(2, 8, 64, 64, device="cuda"))
model = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(32, 64), nn.SiLU()).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
images = torch.randn(8, 64, 256, 256, device="cuda")
noise = torch.randn(64, 64, 64)
for step in range(40):
    optimizer.zero_grad()
    noise.cuda()
    loss = model(images).square().mean()  # the model
    loss.backward()
    optimizer.step()
    print(step, loss.item())  # the wait
"""
MODEL, WAIT = (
    next(number for number, line in enumerate(SCRIPT.splitlines(), 1) if comment in line)
    for comment in ("# the model", "# the wait")
)
NEARLY = 0.1  # of a time that was measured in the same step
ANOTHER_STEP = 0.4  # of one that was not: so short a step leaves the clocks where they like


@cache
def ran(folder, *before):
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, *before, "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.fixture(scope="module")
def evidence(folder):
    assert ran(folder, "-m", "pitstop", "profile").returncode == 0
    recording = runs.find(folder, "last")
    return collect(recording, runs.load(recording).warmup)[0]


def test_prints_what_it_prints_alone(folder):
    bare, profiled = ran(folder), ran(folder, "-m", "pitstop", "profile")
    assert profiled.stdout == bare.stdout
    assert profiled.returncode == bare.returncode == 0


def test_losses_and_device_times_are_read_without_a_wait(evidence):
    assert evidence.step_kind == "optimizer"
    assert all(step.loss is not None for step in evidence.steps)
    assert all(step.device_ms for step in evidence.steady)


def test_kernels_belong_to_the_lines_that_launched_them(evidence):
    busy = sum(kernel.micros for kernel in evidence.kernels)
    tied = [each for each in evidence.operations if each.device_micros]
    assert sum(each.device_micros for each in tied) == pytest.approx(busy, rel=ANOTHER_STEP)
    at_model = sum(each.device_micros for each in tied if each.where.line == MODEL)
    assert at_model > busy / 2


def test_the_timeline_is_of_a_training_step_and_its_parts_add_up(evidence):
    parts = [*evidence.gaps, *evidence.kernels]
    assert sum(each.micros for each in parts) / 1e3 == pytest.approx(
        evidence.timeline_ms, rel=NEARLY
    )
    assert evidence.timeline_ms == pytest.approx(evidence.median_ms(), rel=0.5)


def test_copies_have_the_name_that_cuda_has_for_them(evidence):
    assert "Memcpy HtoD (Pageable -> Device)" in {each.name for each in evidence.transfers}


def test_the_line_that_waits_is_named(evidence):
    assert WAIT in {each.where.line for each in evidence.operations if each.waits}


def test_what_is_recorded_in_the_first_milliseconds_can_be_written(tmp_path):
    from pitstop.profile.record.meters import Meter

    meter = Meter()
    rows = meter.complete([10], [meter.keep(torch.ones((), device="cuda"))])
    torch.cuda.synchronize()
    rows += meter.finish()
    assert [row[3] for row in rows] == [1.0]
