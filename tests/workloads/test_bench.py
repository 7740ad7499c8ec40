import sys

import pytest

from pitstop.cli import main
from pitstop.core.errors import PitstopError
from pitstop.workloads import bench, expect

LINES = [
    "[val] step=0 psnr=12.5",
    "[step 1/4] loss=0.9 time=2.000s",
    "[step 2/4] loss=0.8 time=1.000s",
    "[step 3/4] loss=0.7 time=0.500s",
    "[step 4/4] loss=nan time=0.700s",
    "noise from a library",
    "[done] steps=4 batch=6 psnr=18.25 peak_mem=2048MiB",
]


@pytest.fixture
def workload(tmp_path, monkeypatch):
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "expect.toml").write_text(
        'quality = {metric = "psnr", after_steps = 4, at_least = 1}'
    )
    (folder / "README.md").write_text("# toy\n\nA toy system.\n")
    (folder / "slow.py").write_text("")
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(expect, "FOLDER", tmp_path)
    return folder


def test_reads_times_quality_and_memory_and_leaves_the_warm_up_out(workload):
    outcome = bench.parse("toy", LINES)
    assert outcome.median_seconds == pytest.approx(0.6)
    assert (outcome.quality_before, outcome.quality_after) == (12.5, 18.25)
    assert (outcome.batch, outcome.peak_gpu_bytes) == (6, 2**31)


def test_a_run_without_a_finished_step_is_an_error(workload):
    with pytest.raises(PitstopError, match="no finished step"):
        bench.parse("toy", LINES[:1])


def test_runs_the_real_script_and_fails_with_it(workload, monkeypatch):
    real = bench.subprocess.Popen
    script = "print('[step 1/1] time=0.1s'); print('[done] batch=2 psnr=9'); raise SystemExit({})"

    def popen(code):
        return lambda command, **options: real(
            [sys.executable, "-c", script.format(code)], **options
        )

    monkeypatch.setattr(bench.subprocess, "Popen", popen(0))
    assert bench.run("toy", []).quality_after == 9
    monkeypatch.setattr(bench.subprocess, "Popen", popen(3))
    with pytest.raises(PitstopError, match="exit code 3"):
        bench.run("toy", [])


def test_list_names_all_with_their_summary(capsys):
    assert main.run(["bench", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == bench.names()
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["tiled_vae", "--steps", "0"], ["--with", __file__]]
)
def test_mistakes_are_one_line(arguments, capsys):
    assert main.run(["bench", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
