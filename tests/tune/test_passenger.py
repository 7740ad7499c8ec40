"""A whole search on a real script, with changes of a plugin: a passenger, and the last proof."""

import sys
import time
from pathlib import Path

import pytest

from pitstop.tune.budget import Costs
from pitstop.tune.candidates import Candidate
from pitstop.tune.change import load_plugins
from pitstop.tune.found import Asked, Listener, leading
from pitstop.tune.plan import Toggle, Wanted
from pitstop.tune.processes import Course, Processes
from pitstop.tune.search import Search

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

PLUGIN = """
import time
from pitstop.tune.change import change

@change("exact", toggles=True)
def short_nap(script):
    "Sleep a little less, which nobody notices who sleeps less than that."
    script.patch(time, "sleep", lambda sleep, seconds: sleep(min(seconds, 0.2)))
    script.applied()

@change("exact", toggles=True)
def half_a_nap(script):
    "Sleep half as long, but long enough to be timed."
    script.patch(time, "sleep", lambda sleep, seconds: sleep(0.15))
    script.applied()

@change("exact", toggles=True)
def wrong_and_fast(script):
    "Learn nothing, at once."
    def step(original, optimizer, *given, **named):
        return None
    script.patch(time, "sleep", lambda sleep, seconds: None)
    script.patch(script.torch.optim.SGD, "step", step)
    script.applied()

@change("rounding", precision="bfloat16")
def half_asleep(script):
    "Learn no bias."
    def step(original, optimizer, *given, **named):
        optimizer.param_groups[0]["params"][1].grad = None
        return original(optimizer, *given, **named)
    script.patch(script.torch.optim.SGD, "step", step)
    script.applied()
"""
SCRIPT = """
import time
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(400):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.3)
"""
ENTRIES = """[pitstop.changes]
short-nap = naps:short_nap
half-a-nap = naps:half_a_nap
wrong-and-fast = naps:wrong_and_fast
half-asleep = naps:half_asleep
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The changes of a package that is installed here and in the processes of trials."""
    package = tmp_path / "package"
    about = package / "naps-1.0.dist-info"
    about.mkdir(parents=True)
    (package / "naps.py").write_text(PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: naps\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.setenv("PYTHONPATH", f"{package}:{':'.join(filter(None, sys.path))}")
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    found = load_plugins()
    assert found.problems == ()
    return {each.name: each for each in found.changes}


def test_a_passenger_goes_what_is_wrong_is_refused_and_the_rest_is_proved(plugins, tmp_path):
    pytest.importorskip("torch")
    Path("nap.py").write_text(SCRIPT)
    costs = Costs(start_s=5.0, step_s=0.3, steps=7, toggle=Toggle(steps=2, warmup=2))
    words = (sys.executable, "nap.py")
    course = Course(words, tmp_path / "runs", plugins, costs, time.monotonic() + 3600)
    heard = []
    search = Search(Processes(course), costs, Asked(), Listener(tried=heard.append))
    names = ("short-nap", "wrong-and-fast", "half-a-nap")
    found = search.run([Candidate(plugins[name], ({},)) for name in names])
    verdicts = {each.change: each.verdict for each in found.trials}
    assert verdicts == {
        "short-nap": "not-faster",
        "wrong-and-fast": "drifted",
        "half-a-nap": "kept",
    }
    assert [each.verdict for each in heard] == ["kept", "drifted", "kept", "not-faster"]
    assert "passenger" in found.trials[0].note
    assert [each.name for each in found.kept] == ["half-a-nap"]
    proof = leading(found, "time")
    assert (proof.verdict, proof.metric) == ("better", "step")
    assert proof.pairs >= 6
    assert {path.name for path in (tmp_path / "runs").iterdir()} <= {"compiled"}


def test_a_part_that_no_longer_learns_is_seen_where_no_loss_tells(plugins, tmp_path):
    pytest.importorskip("torch")
    Path("nap.py").write_text(SCRIPT.replace("0.1)", "1e-5)").replace("sleep(0.3)", "sleep(0)"))
    costs = Costs(start_s=5.0, step_s=0.3, steps=7, toggle=Toggle(steps=2, warmup=2))
    words = (sys.executable, "nap.py")
    track = Processes(Course(words, tmp_path / "runs", plugins, costs, time.monotonic() + 3600))
    found = track.check((Wanted("half-asleep"),))
    assert (found.refused, found.note) == (
        "drifted",
        "optimizer 1 no longer moves 1 of its parameters",
    )
