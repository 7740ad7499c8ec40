"""`pitstop profile` at its end, and before it."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")

TRAINING = """
import sys, time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(10_000 if sys.argv[1:] else 300):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).mean().backward()
    time.sleep(0.01)
    optimizer.step()
print("the end")
"""


@pytest.fixture
def profile(tmp_path):
    def run(*words, text=TRAINING):
        (tmp_path / "train.py").write_text(text)
        command = [sys.executable, "-m", "pitstop", "profile", *words]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )

    return run


def test_quick_ends_the_run_by_itself_and_the_verdict_is_shown_beside_a_page(profile, tmp_path):
    ran = profile("--quick", "--output", "step.html", "train.py", "long")
    assert ran.returncode == 0, ran.stderr
    assert "the end" not in ran.stdout
    assert re.search(r"^Verdict  .*train.py: ", ran.stderr, re.MULTILINE)
    assert "Measured on" in ran.stderr
    assert "Next     pitstop report last" not in ran.stderr
    assert (tmp_path / "step.html").stat().st_size > 1000


def test_a_run_says_when_enough_was_seen_and_goes_on(profile):
    ran = profile("train.py")
    assert ran.stdout == "the end\n"
    assert " seen: Ctrl-C gives the report, or it comes when the script ends" in ran.stderr


def test_a_script_that_fails_shows_its_own_error_and_one_line_of_ours(profile):
    ran = profile("train.py", text="import torch\nraise ValueError('of the script')\n")
    assert ran.returncode == 1
    assert ran.stderr.count("Traceback") == 1
    assert "ValueError: of the script" in ran.stderr
    ours = ran.stderr.partition("ValueError: of the script\n")[2]
    said = "the script ended with an error of its own before a step could be timed (exit code 1)"
    assert ours == f"pitstop: {said}\n"


def test_ranks_end_together_and_not_each_by_itself(profile):
    ran = profile("--quick", "--nproc-per-node", "2", "train.py")
    assert ran.returncode == 2
    assert ran.stderr.startswith("pitstop: --quick ends each rank by itself")
