"""Real scripts in real processes: each costs some seconds, so each shows several things."""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from pitstop.tune.plan import Plan, Wanted
from pitstop.tune.runs import machine_lock
from pitstop.tune.runs.machine_lock import my_turn
from pitstop.tune.runs.trials import Settings, run_trial
from pitstop.tune.sandbox import folders

SCRIPTS = Path(__file__).parents[1] / "profile" / "scripts"
pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

TRAINS = """
import os, subprocess, sys
from pathlib import Path
Path("before-torch.txt").write_text("")
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter

class Noted(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        Path(f"seen-{index}").write_text("by a worker")
        return torch.full((3, 8, 8), float(index))

model = nn.Conv2d(3, 3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
first = 0
if os.path.exists("model.pt"):
    state = torch.load("model.pt")
    first = state["step"]
    model.load_state_dict(state["model"])
print("starts at", first)
writer = SummaryWriter("logs")
os.makedirs("kept", exist_ok=True)  # is there, as for all who train again
for step, batch in enumerate(DataLoader(Noted(), batch_size=2, num_workers=1), first):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    writer.add_scalar("loss", loss.item(), step)
    torch.save({"step": step + 1, "model": model.state_dict()}, "model.pt")
writer.close()
subprocess.run([sys.executable, "-c", "open('by-a-child', 'w').write('1')"], check=True)
print("wrote", sorted(os.listdir()))
os.system("touch by-a-program; rm -rf kept")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(folders, "SHORT", Path(tempfile.mkdtemp(dir="/tmp")))
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "temporary"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield folder
    folders.SHORT.rmdir()


def trial(here, text, wanted=None, **settings):
    (here / "script.py").write_text(text)
    folder = here / ".pitstop" / f"trial-{len(list(here.glob('.pitstop/trial-*')))}"
    run = run_trial([sys.executable, "script.py"], wanted or Plan(), folder, Settings(**settings))
    assert not (folder / "scratch").exists()
    assert not list(folders.SHORT.iterdir())
    return run


def test_a_script_that_saves_and_resumes_starts_from_the_users_state_each_time(here):
    torch = pytest.importorskip("torch")
    model = torch.nn.Conv2d(3, 3, 1)
    torch.save({"step": 7, "model": model.state_dict()}, here / "model.pt")
    (here / "kept").mkdir()
    saved = (here / "model.pt").read_bytes()
    runs = [
        trial(here, TRAINS, Plan(seed=1, outputs=True), lists_writes=True),
        trial(here, TRAINS, Plan(seed=1, outputs=True, changes=(Wanted("bf16"),))),
    ]
    assert [run.ending.error for run in runs] == ["", ""]
    assert [run.recording.printed()[0] for run in runs] == ["starts at 7"] * 2
    wrote = runs[0].recording.printed()[1]
    assert all(name in wrote for name in ("by-a-child", "seen-11", "before-torch.txt", "logs"))
    assert (here / "model.pt").read_bytes() == saved
    left = {path.name for path in here.iterdir()}
    assert left == {".pitstop", "kept", "model.pt", "script.py"}
    assert runs[0].written.refused == ("by-a-program", "kept")
    assert "touch" in runs[0].written.programs
    assert str(here / "seen-3") in runs[0].written.redirected
    assert len(runs[0].readings.known_losses) == 6
    assert runs[0].readings.batches == runs[1].readings.batches
    assert runs[1].outcomes[-1].name == "bf16"
    assert runs[0].peak_bytes


def test_of_two_networks_every_loss_is_read(here):
    run = trial(here, (SCRIPTS / "gan.py").read_text(), Plan(seed=1, outputs=True))
    printed = [[float.fromhex(word) for word in line.split()] for line in run.recording.printed()]
    both = zip(run.readings.losses, run.readings.earlier_losses, strict=True)
    assert [[*reversed(earlier), last] for last, earlier in both] == printed


def test_a_script_that_hangs_is_ended_with_all_that_it_started(here):
    text = """
import subprocess
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=1000)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, memory.name, flush=True)
child.wait()
"""
    run = trial(here, text, timeout_s=8)
    assert run.ending.timed_out
    assert run.ending.error == "did not end within 8 s"
    pid, name = run.recording.printed()[0].split()
    assert not psutil.pid_exists(int(pid))
    assert not Path("/dev/shm", name).exists()


def test_a_script_that_exits_at_once_costs_only_its_trial(here):
    text = "import os, torch\nopen('partial', 'w').write('x')\nos._exit(3)\n"
    run = trial(here, text)
    assert run.ending.exit_code == 3
    assert run.ending.error == "ended with exit code 3"
    assert not (here / "partial").exists()
    assert run.evidence.steps == ()


def test_maps_for_perf_are_not_written(here):
    """On Arm torch's kernels are compiled at run time, and listed where perf looks for them."""
    text = "import os, torch; torch.nn.Linear(512, 512)(torch.ones(64, 512)); print(os.getpid())"
    (pid,) = trial(here, text).recording.printed()
    assert not Path(f"/tmp/perf-{pid}.map").exists()


def test_what_was_compiled_outlives_a_trial_and_nothing_else_does(here, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(here / "of-the-user"))
    text = """
import os, pathlib, torch
kernel = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "kernel.so")
print(kernel.exists())
kernel.parent.mkdir(exist_ok=True)
kernel.write_text("")
pathlib.Path("result").write_text("")
"""
    cache = here / ".pitstop" / "kept"
    printed = [trial(here, text, compiled=cache).recording.printed() for _ in range(2)]
    assert printed == [["False"], ["True"]]
    assert [each.name for each in cache.iterdir()] == ["kernel.so"]
    assert not (here / "result").exists()
    assert not (here / "of-the-user").exists()


def test_half_a_library_that_a_killed_linker_leaves_is_not_kept(here, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(here / "of-the-user"))
    text = """
import os, pathlib, signal, time
cache = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
cache.joinpath("ab").mkdir(parents=True)
for name, age in ("whole.so", 60), ("half.so", 0), ("kernel.cubin", 0):
    cache.joinpath("ab", name).write_text("")
    os.utime(cache.joinpath("ab", name), (time.time() - age,) * 2)
os.kill(os.getpid(), signal.SIGKILL)
"""
    cache = here / ".pitstop" / "kept"
    assert trial(here, text, compiled=cache).ending.exit_code == -signal.SIGKILL
    assert {each.name for each in cache.glob("*/*")} == {"whole.so", "kernel.cubin"}


def test_the_errors_own_line_is_told(here):
    run = trial(here, "import torch\nraise torch.OutOfMemoryError('CUDA out of memory. Tried')\n")
    assert run.ending.error.endswith("OutOfMemoryError: CUDA out of memory. Tried (script.py:2)")
    assert run.ending.out_of_memory


def test_a_crash_in_c_is_told_with_its_place(here):
    text = """
import ctypes, threading, time, warnings
import torch
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
warnings.warn("slow")
ctypes.string_at(0)
"""
    run = trial(here, text)
    assert run.ending.exit_code == -11
    assert run.ending.error == "ended by signal 11 (Segmentation fault) (script.py:6)"


def test_a_change_that_does_not_exist_is_an_error_of_the_trial(here):
    run = trial(here, "import torch\nprint('ran')\n", Plan(changes=(Wanted("no-such"),)))
    assert run.ending.exit_code == 97
    assert "no-such" in run.ending.error
    assert run.recording.printed() == []


def test_in_place_the_script_writes_where_it_wants_to(here):
    trial(here, "open('result', 'w').write('x')\n", in_place=True)
    assert (here / "result").exists()


def test_trials_take_turns(here):
    order = []

    def second():
        with my_turn():
            order.append("second")

    with my_turn():
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_who_waits_is_next_though_another_goes_from_trial_to_trial(here):
    """A search has only milliseconds between two of its trials."""
    source = """
import sys, time
from pitstop.tune.runs.machine_lock import my_turn
for turn in range(200):
    with my_turn():
        print(turn, flush=True)
        time.sleep(0.05)
    time.sleep(0.005)
"""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with my_turn():
            pass
        other.kill()
        turns_of_other = len(other.stdout.readlines())
    assert turns_of_other < 20


def test_the_turns_of_others_cost_nobody_s_budget(here):
    begun, ours = time.monotonic(), machine_lock.clock()
    with my_turn():
        waiting = threading.Thread(target=lambda: my_turn().__enter__())
        waiting.start()
        time.sleep(1.0)
    waiting.join()
    waited_s = (time.monotonic() - begun) - (machine_lock.clock() - ours)
    assert 0.5 < waited_s < time.monotonic() - begun


def test_a_trial_ends_where_an_earlier_run_has_told_what_its_steps_are(here):
    """What stands behind the inference promises a training that never comes."""
    promises = """
import torch
model = torch.nn.Linear(2, 2)
for _ in range(30):
    model(torch.ones(1, 2))
if torch.cuda.device_count() > 99:
    model(torch.ones(1, 2)).mean().backward()
"""
    assert len(trial(here, promises, steps=6).evidence.steps) > 20
    assert len(trial(here, promises, steps=6, step_ends=("module", 1)).evidence.steps) <= 6
