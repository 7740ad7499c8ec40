"""``pitstop tune`` and ``pitstop run``: a real script, and what they say where they cannot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pitstop.cli import main
from pitstop.core import store
from pitstop.core.report import Report

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

LOOP = """
import sys
import time
from pathlib import Path
import torch
from torch.utils.data import DataLoader, TensorDataset

if Path("last.ckpt").exists():
    sys.exit("resumed from another run")
torch.manual_seed(0)
data = TensorDataset(torch.randn(400, 8))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for (x,) in DataLoader(data, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    time.sleep(0.001)
    torch.save(model.state_dict(), "last.ckpt")
print("fused", optimizer.param_groups[0]["fused"], sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "no script given"),
        (["no.py"], "no.py: no such file"),
        (["--vary", "x", "loop.py"], "write it like"),
        (["--metric", "psnr", "loop.py"], "parentheses"),
        (["--lower-better", "psnr", "loop.py"], "no --metric has this name"),
        (["--budget", "0", "loop.py"], "--budget"),
        (["--only", "tf64", "loop.py"], "tf64: no such change; choose from allocator, "),
        (["--skip", "tf64", "loop.py"], "tf64: no such change"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_begun(arguments, hint, folder, capsys):
    assert main.run(["tune", *arguments]) == 2
    err = capsys.readouterr().err
    assert hint in err
    assert err.count("\n") == 1
    assert not (folder / ".pitstop").exists()


def test_an_existing_result_is_never_replaced_unasked(folder, capsys):
    Path("tuned.toml").write_text("mine")
    assert main.run(["tune", "loop.py"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("tuned.toml").read_text() == "mine"


def test_a_script_that_fails_by_itself_is_quoted(folder, capfd):
    pytest.importorskip("torch")
    Path("bad.py").write_text("import torch\nraise ValueError('not today')\n")
    assert main.run(["tune", "bad.py"]) == 2
    assert "ValueError: not today (bad.py:2); make it run by itself first" in capfd.readouterr().err


def test_a_real_script_is_tried_and_left_alone(folder, capfd):
    """With a change that does not apply, since pairs of processes would take a minute."""
    pytest.importorskip("torch")
    options = ["--only", "tf32", "--steps", "8", "--format", "json", "--output", "r.json"]
    assert main.run(["tune", *options, "loop.py", "--x"]) == 0
    err = capfd.readouterr().err
    assert "which trials do not touch" in err
    assert "to try: tf32" in err
    report = store.load(Path("r.json"), Report)
    (trial,) = report.trials
    assert (trial.change, trial.verdict) == ("tf32", "not-applicable")
    assert "GPU" in trial.note
    assert report.verdict == "loop.py: no change applies to it. It is left as it is."
    assert f"report written to r.json\n{report.verdict}\n" in err
    assert report.notes[0] == (
        "the untouched script against itself: equal to the last bit in twin steps"
    )
    assert sorted(path.name for path in folder.iterdir()) == [".pitstop", "loop.py", "r.json"]


def test_run_applies_what_was_kept_and_says_what_did_not_take_hold(folder):
    pytest.importorskip("torch")
    Path("tuned.toml").write_text(
        'schema = 1\n[[change]]\nname = "fused-optimizer"\n[[change]]\nname = "tf32"\n'
    )
    command = [sys.executable, "-m", "pitstop", "run", "--with", "tuned.toml", "loop.py", "--x"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.stdout == "fused True ['--x']\n"
    assert done.stderr == "pitstop: tf32 did not take hold: no model on a GPU\n"
    assert done.returncode == 0
    assert Path("last.ckpt").exists()  # in earnest
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("schema = 1\n", "no change"),
        ('schema = 1\n[[change]]\nname = "no-such"\n', "no-such: no such change"),
    ],
)
def test_run_refuses_what_it_does_not_know(text, hint, folder, capsys):
    Path("tuned.toml").write_text(text)
    assert main.run(["run", "--with", "tuned.toml", "loop.py"]) == 2
    assert hint in capsys.readouterr().err
