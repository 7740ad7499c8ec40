"""Running a script bare and profiled, and reading back what was recorded."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from inspecting import LOOP
from pitstop.core.evidence import Evidence
from pitstop.profile.read import runs
from pitstop.profile.read.collect import collect
from pitstop.profile.read.inspection import read_inspection
from pitstop.profile.start.options import Options

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Ran:
    """What a process left behind."""

    code: int
    out: bytes
    err: bytes
    folder: Path

    @property
    def evidences(self) -> tuple[Evidence, ...]:
        recording = runs.find(self.folder, "last")
        return collect(recording, runs.load(recording).warmup)

    @property
    def evidence(self) -> Evidence:
        return self.evidences[0]


def execute(command, folder, stdin=b"", env=None):
    done = subprocess.run(
        command,
        capture_output=True,
        cwd=folder,
        input=stdin,
        env=os.environ | (env or {}),
        check=False,
        timeout=300,
    )
    return Ran(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture
def bare(tmp_path):
    """Run a script of this folder as ``python SCRIPT`` does."""

    def run(name, *arguments, **options):
        folder = tmp_path / "bare"
        folder.mkdir(exist_ok=True)
        return execute([sys.executable, str(SCRIPTS / name), *arguments], folder, **options)

    return run


@pytest.fixture
def profiled(tmp_path):
    """Run a script of this folder under ``pitstop profile``."""

    def run(name, *arguments, ours=(), **options):
        folder = tmp_path / "profiled"
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "pitstop", "profile", *ours, str(SCRIPTS / name)]
        return execute([*command, *arguments], folder, **options)

    return run


@pytest.fixture
def unharmed(bare, profiled):
    """Run a script both ways: it does the same, and its steps are found; what was recorded."""

    def run(script, *arguments, kind, steps):
        without, with_us = bare(script, *arguments), profiled(script, *arguments)
        assert without.code == 0, without.err.decode()
        assert with_us.out == without.out
        assert with_us.code == 0
        assert b"pitstop:" not in with_us.err, with_us.err.decode()
        assert with_us.err.count(b"Warning") == without.err.count(b"Warning"), with_us.err.decode()
        assert with_us.evidence.step_kind == kind
        assert len(with_us.evidence.steps) == steps
        return with_us

    return run


@pytest.fixture
def recording(tmp_path):
    """A recorder with all hooks, in this process."""
    from pitstop.profile.hooks import hooks
    from pitstop.profile.record import recorder

    found = recorder.Recorder(Options(str(tmp_path), inspect=0))
    found.undo = hooks.install(found)
    yield found
    found.close()


@pytest.fixture
def inspected(tmp_path, monkeypatch):
    """Run a script of these parts; its evidence, and the number of each line that ends ``# x``."""
    from pitstop.profile.steps.scope import Scope

    # Other tests of this process may have compiled something, and then nobody looks closely.
    monkeypatch.setattr("pitstop.profile.inspect.inspector.compiled_anything", lambda: False)

    def run(before, step):
        text = LOOP.replace("BEFORE", before).replace("STEP", step.strip().replace("\n", "\n    "))
        path = tmp_path / "script.py"
        path.write_text(text)
        scope = Scope(Options(folder=str(tmp_path), warmup=0, baseline=1))
        notes = []

        def ends():
            done = next(steps)
            notes.extend(scope.step_ended(done))
            if scope.wants(done):
                held = [each for each in variables.values() if hasattr(each, "param_groups")]
                scope.step_begins(done, 0, held)

        steps = iter(range(1, 99))
        variables = {"__name__": "__main__", "__file__": str(path), "ends": ends}
        exec(compile(text, str(path), "exec"), variables)
        marks = {
            mark: number
            for number, line in enumerate(text.splitlines(), 1)
            for mark in re.findall(r"# (\w+)$", line)
        }
        return read_inspection(json.loads(json.dumps(notes))), marks

    return run
