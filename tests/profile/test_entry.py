"""However a script comes to torch, and however it is started, it is seen; and nothing else is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import pitstop
from pitstop.core.errors import PitstopError
from pitstop.profile.start.launch import IsolatedRun, command_line, run
from pitstop.profile.start.options import Options
from pitstop.profile.start.reached import why_unseen

SEEN = "pitstop saw it"
# Stands for torch: what matters here is when its code runs, not what it does.
TORCH = """
import os, sys
if os.path.exists("fails"):
    os.remove("fails")
    raise ImportError("no libcudart")
whole = True
Tensor, _C = object, None  # which our patches ask for
"""
PRIVATE = """
TorchDispatchMode = TreeSpec = tree_flatten = tree_iter = tree_leaves = tree_map = object
tree_unflatten = object
"""
PROBE = """
import sys
def begin(argument):
    assert sys.modules["torch"].whole
    print("pitstop saw it", flush=True)
"""
LIBRARY = """
import importlib.util
found = importlib.util.find_spec("torch") is not None
def train():
    import torch
    return torch.whole
"""
# How people come to torch: a name, and the lines that do it.
ORDERS = {
    "alone": "import torch",
    "from": "from torch import whole",
    "submodule": "import torch.nn",
    "asked for before": "import library\nassert library.found\nimport torch",
    "asked for often": (
        "import importlib.util as u\nfor _ in range(3): assert u.find_spec('torch')\nimport torch"
    ),
    "by a library": "import library\nassert library.train()",
    "imported, then the library": "import torch, library\nassert library.found",
    "by name": "import importlib\nimportlib.import_module('torch')",
    "lazily": (
        "import importlib.util as u, sys\n"
        "spec = u.find_spec('torch')\n"
        "spec.loader = u.LazyLoader(spec.loader)\n"
        "torch = u.module_from_spec(spec)\n"
        "sys.modules['torch'] = torch\n"
        "spec.loader.exec_module(torch)\n"
        "print('not yet', flush=True)\n"
        "assert torch.whole"
    ),
    "by hand": (
        "import importlib.util as u, sys\n"
        "spec = u.find_spec('torch')\n"
        "sys.modules['torch'] = torch = u.module_from_spec(spec)\n"
        "spec.loader.exec_module(torch)"
    ),
    "at the second attempt": (
        "open('fails', 'w').close()\ntry: import torch\nexcept ImportError: import torch"
    ),
    "with another finder before": (
        "import importlib.util as u, sys\n"
        "class Finder:\n"
        "    busy = False\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if self.busy or name != 'torch': return None\n"
        "        self.busy = True\n"
        "        try: return u.find_spec(name)\n"
        "        finally: self.busy = False\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import torch"
    ),
    "in a thread": (
        "import threading\n"
        "def load(): import torch\n"
        "thread = threading.Thread(target=load); thread.start(); thread.join()"
    ),
    "again": "import torch, importlib\nimportlib.reload(torch)",
}


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a program with a stand-in for torch in its folder; what it printed, and its code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    (tmp_path / "torch" / "nn.py").touch()
    (tmp_path / "torch" / "utils").mkdir()
    for name in ("_python_dispatch", "_pytree"):  # whose private names we look up
        (tmp_path / "torch" / "utils" / f"{name}.py").write_text(PRIVATE)
    (tmp_path / "torch" / "compiler.py").write_text("is_dynamo_compiling = bool\n")
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "recording").mkdir()

    def begin(text, *arguments, how=None):
        (tmp_path / "script.py").write_text(text)
        also = (("probe:begin", ""),)
        options = Options(str(tmp_path / "recording"), also=also, record=False)
        with Path("out").open("wb") as out:
            code = run([*(how or [sys.executable, "script.py"]), *arguments], options, (out, out))
        return Path("out").read_text().strip(), code

    return begin


@pytest.mark.parametrize("order", ORDERS)
def test_torch_is_seen_once_when_its_code_has_run(order, start):
    printed, code = start(ORDERS[order])
    assert code == 0, printed
    assert printed == (f"not yet\n{SEEN}" if order == "lazily" else SEEN)


def test_looking_for_torch_is_not_importing_it(start, tmp_path):
    assert start("import library\nassert library.found") == ("", 0)
    assert "has not imported torch" in why_unseen(tmp_path / "recording")


def test_the_import_system_is_as_before_once_torch_is_there(start):
    start(
        "import sys\n"
        "before = [type(each).__name__ for each in sys.meta_path]\n"
        "import torch\n"
        "after = [type(each).__name__ for each in sys.meta_path]\n"
        "print(vars(torch.__spec__.loader).keys(), len(before) - len(after))\n"
        "assert 'exec_module' not in vars(torch.__spec__.loader)\n"
        "assert not [each for each in after if 'Waiting' in each]"
    )
    printed = Path("out").read_text()
    assert "Error" not in printed, printed


def test_words_in_the_users_arguments_mean_nothing(start):
    words = ("--multiprocessing-distributed", "multiprocessing.spawn", "--multiprocessing-fork")
    assert start("import torch", *words, "accelerate", "launch") == (SEEN, 0)


ANEW = """
import os, sys
assert "PITSTOP_PROFILE" not in os.environ and "PYTHONPATH" not in os.environ
try:
    os.execv("no such program", ["no"])
except FileNotFoundError as error:
    assert error.__traceback__.tb_next is None
words = [sys.executable, "script.py", "again"]
if len(sys.argv) == 1:
    before
    BECOME
import torch
"""


@pytest.mark.parametrize(
    "become",
    [
        "os.execv(words[0], words)",
        "os.execl(words[0], *words)",
        "os.execve(words[0], words, env={**os.environ, 'A': '1'})",
        "os.execlp('env', 'env', 'A=1', *words)",
    ],
)
def test_a_script_that_starts_itself_anew_is_seen(become, start, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    text = ANEW.replace("BECOME", become)
    assert start(text.replace("before", "pass")) == (SEEN, 0)


def test_a_fork_that_becomes_another_program_is_a_helper(start, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    fork = "if os.fork(): os.wait(); sys.exit()"
    text = ANEW.replace("BECOME", "os.execv(words[0], words)").replace("before", fork)
    assert start(text) == ("", 0)


HELPERS = """
import multiprocessing

def work(_):
    import torch
    return torch.whole

def helpers_work():
    for how in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            assert pool.map(work, [0]) == [True]
"""


def test_helpers_of_multiprocessing_are_not_the_script(start):
    asks = "if __name__ == '__main__':\n    helpers_work()\n    print('helped', flush=True)\n"
    assert start(f"{HELPERS}{asks}    import torch") == (f"helped\n{SEEN}", 0)


def test_a_launcher_is_not_the_script_and_leaves_no_trace_in_it(start, monkeypatch):
    launcher = (
        f"{HELPERS}\n"
        "import os, subprocess, sys\n"
        "if __name__ == '__main__':\n"
        "    assert 'PITSTOP_PROFILE' in os.environ\n"
        "    import torch\n"
        "    helpers_work()\n"
        "    for rank in range(2): subprocess.run([sys.executable, *sys.argv[1:]], check=True)\n"
    )
    script = "import os, torch\nprint([each for each in os.environ if 'PITSTOP_P' in each])"
    Path("accelerate").write_text(launcher)
    Path("torch/distributed").mkdir()
    Path("torch/distributed/run.py").write_text(launcher)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for how in (["accelerate"], ["-m", "torch.distributed.run"]):
        printed, code = start(script, how=[sys.executable, *how, "script.py"])
        assert (printed, code) == (f"{SEEN}\n[]\n{SEEN}\n[]", 0)


MANNERS = """
import os, sys
import torch
own = sys.modules.get("sitecustomize")
print(own and (own.__file__, sorted(vars(own)), own.__spec__.origin))
print(sys.path, os.environ.get("PYTHONPATH"), sorted(x for x in os.environ if "PITSTOP_P" in x))
"""


@pytest.mark.parametrize("own", [None, "mine = 1", "import torch", "raise KeyError('theirs')"])
def test_the_path_and_the_users_own_sitecustomize_are_as_without_us(own, start, tmp_path):
    source = str(Path(pitstop.__file__).parents[1])  # in the path already, as when installed
    folders = [str(tmp_path / "first"), source, str(tmp_path / "last"), str(tmp_path)]
    (tmp_path / "last").mkdir()
    if own:
        (tmp_path / "last" / "sitecustomize.py").write_text(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(folders))
        printed, _ = start(MANNERS)
        bare = subprocess.run(
            [sys.executable, "script.py"], capture_output=True, text=True, check=True
        )
    expected = [*bare.stderr.splitlines(), *bare.stdout.splitlines()]
    assert [line for line in printed.splitlines() if line != SEEN] == expected
    assert SEEN in printed


def test_a_signal_that_nohup_ignores_stays_ignored(start):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asks = "import os, signal\nos.kill(os.getppid(), signal.SIGHUP)\n"
        tells = "print(signal.getsignal(signal.SIGHUP).name, signal.getsignal(signal.SIGTERM).name)"
        assert start(asks + tells) == ("SIG_IGN SIG_DFL", 0)
    finally:
        signal.signal(signal.SIGHUP, before)


FAMILY = """
import signal, subprocess, sys, time
def saves(*_):
    open("saved", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, saves)
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleeps, start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_when_we_are_killed_the_script_may_save_and_ends_with_all_that_it_started(tmp_path):
    (tmp_path / "script.py").write_text(FAMILY)
    begin = (
        "import sys\n"
        "from pitstop.profile.start.launch import Options, run\n"
        f"run([sys.executable, 'script.py'], Options({str(tmp_path)!r}, record=False))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", begin], stdout=subprocess.PIPE, cwd=tmp_path
    ) as ours:
        grandchild = psutil.Process(int(ours.stdout.readline()))
        family = [*psutil.Process(ours.pid).children(), grandchild]
        assert len(family) == 3  # the script, its guardian and what it started
        ours.kill()
        _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive
    assert (tmp_path / "saved").exists()


def test_a_run_whose_time_is_up_ends_with_all_that_it_started(start, tmp_path):
    (tmp_path / "script.py").write_text(FAMILY)
    with Path("out").open("wb") as out:
        options = Options(str(tmp_path / "recording"), record=False)
        code = run(
            [sys.executable, "script.py"], options, (out, out), apart=IsolatedRun(timeout_s=3)
        )
    assert code == -signal.SIGKILL
    assert not psutil.pid_exists(int(Path("out").read_text()))


@pytest.mark.parametrize(
    ("target", "processes", "words"),
    [
        (("train.py", "-x"), None, [sys.executable, "train.py", "-x"]),
        (("./train.py",), None, [sys.executable, "./train.py"]),
        (("mytrain", "-x"), None, ["mytrain", "-x"]),
        (("bin/mytrain",), None, ["bin/mytrain"]),
        (("mytrain", "-x"), 2, ["--no-python", "mytrain", "-x"]),
        (("train.py", "-x"), 2, ["train.py", "-x"]),
        (("same",), None, [sys.executable, "same"]),  # a script here, and a command elsewhere
    ],
)
def test_what_is_typed_is_a_script_or_a_command(target, processes, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    for name in ("train.py", "same", "bin/same", "bin/mytrain"):
        Path(name).touch(mode=0o755)
    found = command_line(target, False, processes)
    assert found[-len(words) :] == words
    assert ("torch.distributed.run" in found) == bool(processes)


def test_an_unknown_command_and_one_that_starts_ranks_itself_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PitstopError, match="no such file; give a script, a command, or -m MODULE"):
        command_line(("mytrain",), False, None)
    (tmp_path / "torchrun").touch(mode=0o755)
    with pytest.raises(PitstopError, match="leave --nproc-per-node out"):
        command_line(("torchrun", "train.py"), False, 2)
