"""`pitstop run --guard`: bad steps are left out, repeated once, and their cause is named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pitstop.guard.begin import Guard
from pitstop.guard.plan import GuardPlan

SCRIPTS = Path(__file__).parent / "scripts"
FOUND = {  # what is said, beside the marked line
    "nan_in_a_sample": "the batch that goes into `0` is not finite",
    "infinity_in_a_sample": "1 number of the batch is not finite",
    "log_of_zero": "`log` of 16 numbers that are zero or less",
    "log_of_a_negative": "`log` of 16 numbers that are zero or less",
    "slope_of_a_root": "the gradient of `sqrt` is the first",
    "zero_over_zero": "`div` by a number that is zero",
    "one_over_zero": "`reciprocal` of zero",
    "overflow_of_half": "gives the first result that is not finite",
    "overflow_of_exp": "`exp` of numbers too large for it",
    "softmax_of_a_masked_row": "`softmax`",
    "no_target_at_all": "over no target: all of them are ignored",
    "deviation_of_one": "`std` of a single number",
    "mean_of_nothing": "`mean` of no number at all",
    "angle_beyond_one": "`acos` of",
    "power_of_a_negative": "`pow` of",
    "hidden_by_where": "the gradient of `log` is the first",
    "odd_backward": "the gradient of `odd` is the first",
    "bad_target": "`mse_loss` with a value that is not finite",
    "weights_overwritten": "the weights in `2` had gone astray",
    "exploding_rate": "the weights in `1` had gone astray: weights as large as 1e+30",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the guard said of each case; in a process of its own, where nothing was compiled."""
    folder = tmp_path_factory.mktemp("cases")
    command = [sys.executable, SCRIPTS / "cases.py", *FOUND]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def line_of(mark):
    lines = (SCRIPTS / "cases.py").read_text().splitlines()
    return next((at for at, text in enumerate(lines, 1) if text.endswith(f"  # {mark}")), 0)


@pytest.mark.parametrize("name", FOUND)
def test_the_first_bad_operation_is_named_with_its_line(name, told):
    said = told[name]["said"]
    assert "step 6" in said
    assert "are not finite: left out" in said
    assert FOUND[name] in said
    mark = "poisoned" if "sample" in name else name
    assert said.count("repeated") <= 3
    if (line := line_of(mark)) and "number of the batch" not in said:
        assert f"cases.py:{line})" in said
    if "weights" not in FOUND[name]:
        assert "samples 20 to 23 of Samples" in said
        assert told[name]["finite"]


def test_torch_is_as_before_when_the_guard_is_closed(tmp_path):
    before = torch.autograd.backward, torch.utils.data.DataLoader.__iter__
    guard = Guard(GuardPlan("skip", str(tmp_path)))
    assert torch.autograd.backward is not before[0]
    guard.close()
    assert (torch.autograd.backward, torch.utils.data.DataLoader.__iter__) == before


def run(*words, cwd):
    command = [sys.executable, "-m", "pitstop", "run", *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


PROGRAM = SCRIPTS / "program.py"


def test_a_run_without_a_bad_step_prints_what_it_prints_unguarded(tmp_path):
    plain = subprocess.run(
        [sys.executable, PROGRAM, "plain"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    ours = run("--guard", "skip", str(PROGRAM), "plain", cwd=tmp_path)
    assert (ours.returncode, ours.stderr) == (0, "")
    assert ours.stdout == plain.stdout
    nothing = run("--guard", "skip", str(PROGRAM), "no-training", cwd=tmp_path)
    assert nothing.returncode == 2
    assert nothing.stderr == "pitstop: nothing was guarded: no optimizer of torch took a step\n"


def test_stop_ends_the_run_with_the_cause_and_runs_what_the_script_has_for_its_end(tmp_path):
    ended = run("--guard", "stop", str(PROGRAM), "bad", cwd=tmp_path)
    assert ended.returncode == 1
    assert "step 3, repeated: the batch that goes into `0` is not finite" in ended.stderr
    assert "NotFiniteError: step 3: gradients" in ended.stderr
    assert ended.stdout.endswith("saved, finite: True\n")


WAYS = ("workers", "accumulate", "gan", "scaler", "accelerate", "trainer", "lightning")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_ways_to_train(way, tmp_path):
    ended = run("--guard", "skip", str(PROGRAM), way, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("saved, finite: True\n")
    if way != "scaler":  # which leaves steps out by itself
        assert "are not finite: left out" in ended.stderr
        assert "repeated: the batch" in ended.stderr
        assert "no longer guarded" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("way", ["lightning", "trainer"])
def test_rewind_in_a_library_goes_back_to_before_the_bad_step(way, tmp_path):
    ended = run("--guard", "rewind", str(PROGRAM), way, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("saved, finite: True\n")
    assert "step 3: gradients" in ended.stderr
    assert "went back to step 2" in ended.stderr


@pytest.mark.slow
def test_all_ranks_leave_the_same_step_out(tmp_path):
    ended = run("--guard", "skip", "--nproc-per-node", "2", str(PROGRAM), "ranks", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("saved, finite: True") == 2
    assert ended.stderr.count("step 3: gradients") == 2
    assert len({each for each in ended.stdout.split() if each.startswith("sum:")}) == 1


def test_run_without_anything_to_do_is_refused(tmp_path):
    ended = run("train.py", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "pitstop: nothing to do: give --with FILE, --guard POLICY, or both\n"
