"""At the end nothing of ours is left: no hook, no thread, nothing that holds what is torch's."""

import gc
import json
import sys

import pytest

torch = pytest.importorskip("torch")

from pitstop.profile.inspect import kernels, profiler, timeline  # noqa: E402
from pitstop.profile.start.launch import run  # noqa: E402
from pitstop.profile.start.options import Options  # noqa: E402
from pitstop.profile.steps.scope import Scope  # noqa: E402

# Registered before torch is imported, so it is called after our own end.
SCRIPT = """
import atexit, gc, json, sys
from pathlib import Path

def tell():
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    ours = {kind.__name__ for kind in kinds if str(kind.__module__).startswith("pitstop.profile")}
    threads = len(sys._current_frames()) - 1  # ours would not be among those of threading
    changed = [name for name, function in before.items() if function != state()[name]]
    print(json.dumps([sorted(ours), threads, changed, sys.getswitchinterval()]))

def state():
    loader, modules = torch.utils.data.DataLoader, torch.nn.modules.module
    return {
        "backward": torch.autograd.backward.__code__.co_filename.endswith("autograd/__init__.py"),
        "loader": loader.__init__.__code__.co_filename.endswith("dataloader.py"),
        "save": torch.save.__code__.co_filename.endswith("serialization.py"),
        "numpy": "numpy" in vars(torch.Tensor),
        "hooks": [*modules._global_forward_pre_hooks, *modules._global_forward_hooks],
        "modes": torch._C._len_torch_dispatch_stack(),
        "profiler": torch._C._autograd._profiler_enabled(),
    }

atexit.register(tell)
import torch
from torch import nn
before = dict.fromkeys(("backward", "loader", "save"), True)
before |= {"numpy": False, "hooks": [], "modes": 0, "profiler": False}
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(400, 8))
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu", enabled=ENABLED)
kept = []
for step, (x,) in enumerate(torch.utils.data.DataLoader(data, batch_size=4), 1):
    loss = model(x).square().mean()
    kept.append(loss)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    END
"""
ENDS = [
    ("if step == 8: break", {"trace": True, "inspect": 1}),  # inspector and profiler run
    ("if step == 10: sys.exit(3)", {}),  # the sampler runs
    ("if step == 30: raise KeyError('mine')", {}),
    ("pass", {"steps": 9}),
    (
        "if step == 9: sys.modules['pitstop.profile.start.attach']._active[0].clock = None",
        {},
    ),  # our fault
]


@pytest.mark.parametrize(("end", "options"), ENDS)
def test_nothing_of_ours_outlives_the_script_however_it_ends(end, options, tmp_path):
    path, printed, complained = tmp_path / "script.py", tmp_path / "out", tmp_path / "err"
    path.write_text(SCRIPT.replace("END", end).replace("ENABLED", str("break" in end)))
    with printed.open("wb") as out, complained.open("wb") as err:
        run([sys.executable, str(path)], Options(str(tmp_path), **options), (out, err))
    left, threads, changed, interval = json.loads(printed.read_text().splitlines()[-1])
    assert left == ["Notes", "Options", "Recorder"], complained.read_text()  # empty ones
    assert (threads, changed, interval) == (0, [], 0.005)
    assert ("recording stopped" in complained.read_text()) == ("= None" in end)


class Profiler:
    """Notes when it starts and stops."""

    def __init__(self, log):
        self._log = log

    def start(self):
        self._log.append("start")

    def stop(self, last=False):
        self._log.append("last" if last else "stop")


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """What happens to the first steps of a run on a GPU, as text; nothing is profiled."""
    log = []
    monkeypatch.setattr(kernels, "Profiler", lambda **_: Profiler(log))
    monkeypatch.setattr(timeline, "Profiler", lambda **_: Profiler(log))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr("pitstop.profile.steps.scope.kept", lambda *_: log.append("search"))
    monkeypatch.setattr("pitstop.profile.inspect.inspector.compiled_anything", lambda: False)

    def run(baseline=1, seconds=0.1):
        monkeypatch.setattr("pitstop.profile.steps.scope.time.monotonic", lambda: seconds * done)
        options = Options(folder=str(tmp_path), warmup=1, baseline=baseline, inspect=2)
        done = 0
        scope = Scope(options)
        for done in range(1, 16):
            log.append(done)
            list(scope.step_ended(done))
            if scope.wants(done):
                scope.step_begins(done, 0, [])
        return " ".join(map(str, log))

    return run


def test_there_is_a_step_between_two_profilers_and_nobody_searches_memory_in_a_timeline(steps):
    """Else the range of ``optimizer.step`` ends in freed memory, see ``profiler``."""
    assert steps().startswith("1 2 3 start 4 stop 5 start 6 7 8 last search 9 10")


@pytest.mark.parametrize(
    ("seconds", "inspected"),
    [(0.5, "6 7 start 8 stop"), (2.0, "3 4 start 5 stop"), (60.0, "3 4 start 5 stop")],
)
def test_a_baseline_of_long_steps_is_short(steps, seconds, inspected):
    assert inspected in steps(baseline=5, seconds=seconds)


def test_ranks_wait_for_their_whole_baseline(steps, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert "6 7 start 8 stop" in steps(baseline=5, seconds=60.0)


def test_the_scripts_own_profiler_comes_first():
    ours = profiler.Profiler()
    ours.start()
    torch.ones(2) + 1
    with torch.profiler.profile() as theirs:
        torch.ones(2) + 1
        assert not profiler.may_profile()
    assert any(event.name == "aten::add" for event in theirs.events())
    assert ours.stop() is None
    del theirs
    gc.collect()
    assert profiler.may_profile()
