"""Whatever happens to the script happens as it would without Pitstop, and what was seen is kept."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from pitstop.profile.read import runs
from pitstop.profile.read.collect import collect
from pitstop.profile.start.launch import run
from pitstop.profile.start.options import Options

pytest.importorskip("torch")

LOOP = """
import os, signal, sys, time
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(1, STEPS + 1):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), flush=True)
    FAULT
print("end", flush=True)
"""


@pytest.fixture
def script(tmp_path):
    """Write a training script in which something happens at the end of each step."""

    def write(fault="pass", steps=12, before=""):
        text = before + LOOP.replace("STEPS", str(steps)).replace("FAULT", fault)
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write


def bare(path):
    return subprocess.run([sys.executable, path], capture_output=True, cwd=path.parent, check=False)


def profiled(path, *ours, env=None):
    command = [sys.executable, "-m", "pitstop", "profile", *ours, str(path)]
    return subprocess.run(
        command, capture_output=True, cwd=path.parent, check=False, env=os.environ | (env or {})
    )


def evidence(path):
    folder = runs.find(path.parent, "last")
    return collect(folder, runs.load(folder).warmup)[0]


@pytest.mark.parametrize(
    "fault",
    [
        "if step == 6: raise ValueError('bad')",
        pytest.param("if step == 6: sys.exit('told so')", marks=pytest.mark.slow),
        pytest.param("if step == 6: os.kill(os.getpid(), signal.SIGTERM)", marks=pytest.mark.slow),
        "if step == 6: os.kill(os.getpid(), signal.SIGKILL)",
        pytest.param("if step == 6: torch.empty(1 << 60)", marks=pytest.mark.slow),
        pytest.param("if step == 6: os._exit(9)", marks=pytest.mark.slow),
    ],
)
def test_the_end_is_the_scripts_own_and_five_steps_are_readable(fault, script):
    path = script(f"time.sleep(0.2)\n    {fault}")
    without, with_us = bare(path), profiled(path)
    assert with_us.returncode == without.returncode
    assert with_us.stdout == without.stdout
    assert with_us.stderr.startswith(without.stderr.split(b"\nPython")[0].rstrip(b"\n"))
    assert 4 <= len(evidence(path).steps) <= 6  # the last half second may be lost to a kill


def test_ctrl_c_reaches_the_script_once_and_its_handler_decides(script):
    before = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('caught', flush=True))\n"
    path = script("time.sleep(0.1)", steps=30, before=before)
    command = [sys.executable, "-m", "pitstop", "profile", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=path.parent, start_new_session=True
    ) as process:
        for _ in range(4):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest = process.stdout.read()
    assert rest.count(b"caught") == 1
    assert rest.endswith(b"end\n")
    assert process.returncode == 0


def test_a_signal_to_us_is_handed_on(script):
    path = script("time.sleep(0.1)", steps=300)
    command = [sys.executable, "-m", "pitstop", "profile", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=path.parent) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == -signal.SIGTERM


def test_steps_ends_the_run_cleanly_with_finalisers_and_exit_0(script):
    before = "import atexit\natexit.register(lambda: print('finalised', flush=True))\n"
    ran = profiled(script(steps=1000, before=before), "--steps", "20")
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0
    assert lines[-1] == b"finalised"
    assert len(lines) == 20  # nineteen losses: the twentieth step ends inside optimizer.step


def test_our_own_failure_is_one_line_and_the_script_goes_on(script):
    path = script(before=BROKEN)
    without, with_us = bare(path), profiled(path)
    assert with_us.stdout == without.stdout
    assert with_us.returncode == 0
    assert with_us.stderr.count(b"planted") == 1


def test_a_read_only_folder_still_runs_the_script(script, tmp_path):
    path = script(steps=6)
    (tmp_path / ".pitstop").write_text("a file where the folder should be")
    ran = profiled(path)
    assert ran.returncode == 0
    assert ran.stdout == bare(path).stdout
    assert b"recording to" in ran.stderr


FULL = (  # as soon as torch, which writes files of its own, has been imported and used
    "if step == 1: import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))"
)
BROKEN = (
    "import torch, pitstop.profile.record.recorder as r\n"
    "def broken(*_): raise ZeroDivisionError('planted')\n"
    "r.Recorder._write_slice = broken\n"
)


def test_a_full_disk_is_one_line_and_the_script_goes_on(script):
    ran = profiled(script(FULL))
    assert ran.returncode == 0
    assert ran.stdout == bare(script()).stdout
    assert ran.stderr.count(b"recording stopped") == ran.stderr.count(b"File too large") == 1


@pytest.mark.parametrize(("before", "fault"), [("", FULL), (BROKEN, "pass")])
@pytest.mark.parametrize("silence", ["sys.stderr = None", "sys.stderr.close()"])
def test_a_script_that_cannot_be_recorded_and_has_no_stderr_goes_on(silence, before, fault, script):
    path = script(fault, before=f"import sys\n{silence}\n{before}")
    options = Options(str(path.parent), inspect=0)
    with (path.parent / "out").open("wb") as out:
        assert run([sys.executable, str(path)], options, (out, out)) == 0
    assert (path.parent / "out").read_text().endswith("end\n")


def test_all_steps_before_an_early_crash_are_readable(script):
    path = script("if step == 10: os.kill(os.getpid(), signal.SIGSEGV)")
    assert profiled(path).returncode == -signal.SIGSEGV
    assert len(evidence(path).steps) == 10


def test_a_report_that_cannot_be_made_leaves_the_exit_code_alone(script, monkeypatch):
    code = (
        "import sys, pitstop.cli.profile as p; from pitstop.cli.main import run\n"
        "def broken(*_): raise OSError(28, 'No space left on device')\n"
        "p.report_of = broken\n"
        f"sys.exit(run(['profile', {str(script('if step == 3: sys.exit(7)'))!r}]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ran.returncode == 7
    assert ran.stderr.decode().count("No space left") == 1
    assert b"Traceback" not in ran.stderr


def test_a_run_that_never_finishes_a_step_shows_where_it_hangs(tmp_path):
    path = tmp_path / "hangs.py"
    path.write_text(
        "import torch, time, pathlib\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Slow(Dataset):\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, index):\n"
        "        while not told() and time.monotonic() < end: time.sleep(0.1)  # the line\n"
        "        raise RuntimeError('never')\n"
        "def told():\n"
        "    stacks = pathlib.Path('.pitstop').glob('runs/*/stacks-*')\n"
        "    return any('in __getitem__' in path.read_text() for path in stacks)\n"
        "end = time.monotonic() + 100\n"
        "for _ in DataLoader(Slow(), num_workers=1): pass\n"
    )
    before = "from pitstop.profile.start import stacks; stacks.PATIENCE_SECONDS = 0.5; "
    code = before + f"from pitstop.cli.main import run; run(['profile', {str(path)!r}])"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False)
    stacks = "\n".join(evidence(path).stacks)
    assert "line 6 in __getitem__" in stacks
    assert "line 12 in <module>" in stacks
    assert evidence(path).loaders[0].workers == 1


def test_a_dead_worker_is_the_scripts_own_error(tmp_path):
    path = tmp_path / "dies.py"
    path.write_text(
        "import os, torch\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Dies(Dataset):\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, index): os._exit(1)\n"
        "for _ in DataLoader(Dies(), num_workers=1): pass\n"
    )
    without, with_us = bare(path), profiled(path)
    assert with_us.returncode == without.returncode == 1
    assert b"exited unexpectedly" in with_us.stderr
    assert b"pitstop/profile" not in with_us.stderr


def test_the_scripts_own_profiler_and_excepthook_still_work(script):
    before = (
        "import sys, torch\n"
        "sys.excepthook = lambda kind, error, trace: print('mine', kind.__name__, flush=True)\n"
        "profile = torch.profiler.profile(); profile.start()\n"
    )
    fault = (
        "if step == 11: profile.stop(); print(len(profile.events()) > 10); "
        "print(sum(event.name == 'aten::item' for event in profile.events())); raise KeyError('x')"
    )
    path = script(fault, before=before)
    without, with_us = bare(path), profiled(path)
    own = rb"True\n1[12]\nmine KeyError\n$"  # its own eleven, and one in which torch 2.6 sets up
    assert re.search(own, without.stdout)
    assert with_us.stdout == without.stdout
    assert with_us.returncode == without.returncode


def test_a_strict_script_finds_no_thread_and_no_open_file_of_ours(script):
    before = "import threading, warnings\nwarnings.simplefilter('error')\n"
    path = script("print(threading.active_count(), flush=True)", before=before)
    without, with_us = bare(path), profiled(path)
    assert with_us.stdout == without.stdout
    said = without.stderr.count(b"ResourceWarning")  # torch 2.6 itself leaves a folder open
    assert with_us.stderr.count(b"ResourceWarning") == said


def test_a_forked_child_records_nothing(script):
    path = script("if step == 3 and os.fork() == 0: os._exit(0)")
    assert profiled(path).returncode == 0
    assert len(list(runs.find(path.parent, "last").glob("rank*.jsonl"))) == 1


def test_steps_can_be_marked(tmp_path):
    path = tmp_path / "marked.py"
    path.write_text(
        "import torch, pitstop\n"
        "for _ in range(15):\n"
        "    with pitstop.step():\n"
        "        torch.randn(64, 64) @ torch.randn(64, 64)\n"
    )
    profiled(path)
    assert (evidence(path).step_kind, len(evidence(path).steps)) == ("marked", 15)


def test_redacted_recordings_name_no_path_and_no_argument(script):
    stacks = "pathlib.Path('.pitstop').glob('runs/*/stacks-*')"  # they would hold paths
    path = script(before=f"import pathlib, torch\nassert not list({stacks})\n")
    assert profiled(path, "--redact").returncode == 0
    folder = runs.find(path.parent, "last")
    text = "".join(each.read_text() for each in folder.iterdir())
    assert "script" not in text
    assert str(path.parent) not in text
    assert evidence(path).operations


def test_the_trace_is_a_gzipped_chrome_trace(script):
    import gzip

    path = script()
    profiled(path, "--trace")
    (trace,) = runs.find(path.parent, "last").glob("trace-*.json.gz")
    assert json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]


def test_two_processes_of_torchrun_are_recorded_by_rank(tmp_path):
    path = tmp_path / "ddp.py"
    path.write_text(
        "import torch, torch.distributed as dist\n"
        "from torch import nn\n"
        "dist.init_process_group('gloo')\n"
        "torch.manual_seed(0)\n"
        "model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters(), 1e-3)\n"
        "for step in range(12):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.randn(8, 4)).mean().backward()\n"
        "    optimizer.step()\n"
        "dist.destroy_process_group()\n"
    )
    ran = profiled(path, "--nproc-per-node", "2")
    assert ran.returncode == 0, ran.stderr.decode()
    folder = runs.find(tmp_path, "last")
    found = collect(folder, 3)
    assert [(each.rank, len(each.steps)) for each in found] == [(0, 12), (1, 12)]
