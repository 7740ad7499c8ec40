"""A change that fails ends a trial, and never a run in earnest."""

import subprocess
import sys

import pytest

from pitstop.tune.inside.failures import shielded
from pitstop.tune.plan import Plan, Wanted
from pitstop.tune.runs.trials import run_trial

TUNED = """
schema = 1
command = "train.py"
date = ""
machine = ""
[[change]]
name = "channels-last"
"""
# The second network is first called at step 20: its weights have no shape before that.
LATE = """
import atexit, torch
from torch import nn

class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.LazyConv2d(3, 3, padding=1)
    def forward(self, pictures):
        return self.convolution(pictures)

first, late = nn.Conv2d(3, 3, 3, padding=1), Late()
optimizer = torch.optim.SGD(first.parameters(), lr=1e-3)
atexit.register(print, "cleaned up")
try:
    for step in range(30):
        pictures = first(torch.ones(2, 3, 8, 8))
        loss = (late(pictures) if step >= 20 else pictures).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(first.state_dict(), "model.pt")
    print("trained", step, first.weight.is_contiguous())
finally:
    print("finally")
"""


@pytest.mark.slow
def test_in_earnest_it_is_taken_off_and_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned.toml").write_text(TUNED)
    (tmp_path / "train.py").write_text(LATE)
    words = [sys.executable, "-m", "pitstop", "run", "--with", "tuned.toml", "train.py"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == ["trained 29 True", "finally", "cleaned up"]
    said = [line for line in ran.stderr.splitlines() if line.startswith("pitstop: ")]
    assert len(said) == 1
    start = "pitstop: channels-last failed and is taken off, the run goes on without it: ValueError"
    assert said[0].startswith(start)
    assert (tmp_path / "model.pt").exists()
    wanted = Plan(changes=(Wanted("channels-last"),))
    tried = run_trial([sys.executable, "train.py"], wanted, tmp_path / "trial")
    assert tried.ending.exit_code == 97
    assert tried.ending.error.startswith("change channels-last failed: ValueError")


def test_an_error_of_the_change_leaves_the_original_call():
    def before(original, module, number):
        raise KeyError("before")

    def after(original, module, number):
        original(number)
        raise KeyError("after")

    for around in (before, after):
        calls, failed = [], []
        either = shielded(around, failed.append, about=1)
        assert either(calls.append, "the module", 21) is None
        assert calls == [21]
        assert [each.args for each in failed] == [(around.__name__,)]


def test_an_error_of_the_script_stays_its_own():
    def broken(number):
        raise ZeroDivisionError

    either = shielded(lambda original, number: original(number), pytest.fail)
    with pytest.raises(ZeroDivisionError):
        either(broken, 1)
