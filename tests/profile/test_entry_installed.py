"""Installed from a wheel into a fresh environment: every usual import order and way to start."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from pitstop.profile.read import runs
from pitstop.profile.read.collect import collect

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRAINS = """
import sys
torch = sys.modules["torch"]

def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    if torch.distributed.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(12):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item().hex(), flush=True)
    print("fused", optimizer.param_groups[0]["fused"])
"""
USES = {  # what each library is imported for; that imports torch where it was not there before
    "accelerate": "from accelerate import Accelerator",
    "diffusers": "from diffusers import UNet2DModel",
    "lightning": "from lightning import Trainer",
    "peft": "from peft import LoraConfig, get_peft_model",
    "torchvision": "from torchvision import whole",  # a stand-in of the tests' own
    "transformers": "from transformers import BertModel",
}
TUNED = """
schema = 1
command = "pitstop tune train.py"
date = "2026-11-19"
machine = "a CPU"
[[change]]
name = "fused-optimizer"
"""


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """The folder of programs of a fresh environment with our wheel, and torch from beside it."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True)
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("pitstop-*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    asks = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", asks], check=True, capture_output=True, text=True)
    beside = sysconfig.get_path("purelib")
    Path(packages.stdout.strip(), "beside.pth").write_text(f"{beside}\n")
    return python.parent


@pytest.fixture
def train(environment, tmp_path):
    """Start a program of the fresh environment in a folder of its own; what came of it."""

    def run(*command):
        done = subprocess.run(
            [environment / command[0], *command[1:]],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
            env=os.environ | {"PATH": f"{environment}:{os.environ['PATH']}"},
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


def steps(folder):
    """How many steps of each rank were recorded last."""
    recording = runs.find(folder, "last")
    return [len(each.steps) for each in collect(recording, runs.load(recording).warmup)]


def test_the_wheel_is_what_runs(train, tmp_path):
    (tmp_path / "where.py").write_text("import pitstop; print(pitstop.__file__)")
    assert str(ROOT) not in train("python", "where.py").stdout


@pytest.mark.parametrize("order", ["library, torch", "torch, library", "library alone"])
@pytest.mark.parametrize("library", USES)
def test_steps_are_seen_whatever_is_imported_first(library, order, train, tmp_path):
    if library == "torchvision":
        (tmp_path / "torchvision.py").write_text(
            "import importlib.util\n"
            "assert importlib.util.find_spec('torch')\n"
            "import torch\n"
            "whole = True\n"
        )
    else:
        pytest.importorskip(library)
    lines = {
        "library, torch": f"import {library}\nimport torch",
        "torch, library": f"import torch\n{USES[library]}",
        "library alone": USES[library],
    }
    (tmp_path / "train.py").write_text(f"{lines[order]}\n{TRAINS}\nmain()\n")
    bare, profiled = train("python", "train.py"), train("pitstop", "profile", "train.py")
    assert profiled.stdout == bare.stdout
    assert steps(tmp_path) == [12]


BEGINS = "import os, torch\n"
JOINS = "if 'RANK' in os.environ: torch.distributed.init_process_group('gloo')\n"
LEAVES = "if torch.distributed.is_initialized(): torch.distributed.destroy_process_group()\n"
WAYS = {
    "by file": (("train.py",), 1),
    "by python": (("python", "train.py"), 1),
    "as a module": (("-m", "package.train"), 1),
    "by a console script": (("mytrain",), 1),
    "by torchrun of ours": (("--nproc-per-node", "2", "train.py"), 2),
    "a console script by torchrun": (("--nproc-per-node", "2", "mytrain"), 2),
    "by torchrun": (("-m", "torch.distributed.run", "--nproc-per-node=2", "train.py"), 2),
    "by accelerate launch": (
        ("-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "train.py"),
        1,
    ),
    "by accelerate's console script": (
        ("accelerate", "launch", "--cpu", "--num_processes=1", "train.py"),
        1,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_steps_are_seen_and_changes_take_hold_however_it_is_started(
    way, train, environment, tmp_path
):
    words, ranks = WAYS[way]
    if "accelerate" in way:
        pytest.importorskip("accelerate")
        console = (
            f"#!{environment / 'python'}\nfrom accelerate.commands.accelerate_cli import main\n"
        )
        _program(environment / "accelerate", f"{console}main()\n")
    text = f"{BEGINS}{JOINS}{TRAINS}\nmain()\n{LEAVES}"
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(text)
    _program(environment / "mytrain", f"#!{environment / 'python'}\n{text}")
    (tmp_path / "tuned.toml").write_text(TUNED)
    train("pitstop", "profile", *words)
    assert steps(tmp_path) == [12] * ranks
    changed = train("pitstop", "run", "--with", "tuned.toml", *words)
    assert changed.stdout.count("fused True") == ranks, changed.stdout
    assert "pitstop:" not in changed.stderr


def _program(path, text):
    path.write_text(text)
    path.chmod(0o755)


MANNERS = """
import os, sys
import torch
own = sys.modules.get("sitecustomize")
print(own and (own.__file__, sorted(vars(own)), own.__spec__.origin))
print(sys.path, os.environ.get("PYTHONPATH"), [x for x in os.environ if "PITSTOP_P" in x])
"""


def test_the_path_and_the_users_own_sitecustomize_are_as_without_us(train, tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("mine = 1")
    (tmp_path / "manners.py").write_text(MANNERS)
    for path in ("", str(tmp_path / "own")):
        monkeypatch.setenv("PYTHONPATH", path)
        bare = train("python", "manners.py").stdout
        assert train("pitstop", "profile", "manners.py").stdout == bare
