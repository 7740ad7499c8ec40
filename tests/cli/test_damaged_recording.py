"""A recording that was damaged, or made by a stranger: no traceback, no file of yours shown."""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from pitstop.cli import main
from pitstop.cli.formats import formats
from pitstop.core.errors import PitstopError

SEED = 36
MUTATIONS = 150  # a twentieth of a second each; 31 of 100 ended in a traceback once
VALUES = [
    *(None, True, -1, 0, 1, 2**63, 2**70, 1e308, -1e308, 1e-320, float("nan"), float("inf")),
    *("", "x", "/etc/passwd", "\x1b[2J", "\udcff", [], [None], [[]], {}, {"a": 1}),
]
SCRIPT = """
import torch
from torch.utils.data import DataLoader

API_KEY = "0123456789"; model = torch.nn.Linear(4, 1)  # a line with a secret
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    for batch in DataLoader(torch.randn(40, 4), batch_size=4):
        loss = model(batch + torch.zeros(4)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A real recording, and the folder of its script."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "-m", "pitstop", "profile", "train.py"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (found,) = (folder / ".pitstop" / "runs").iterdir()
    return found


@pytest.fixture
def copy(recorded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(recorded, tmp_path / "recording")


def reported(folder, name="terminal"):
    """Exit code, what was printed, and the errors that were said."""
    errors, out = [], io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr("pitstop.cli.main.say_error", lambda error, _: errors.append(error))
        code = main.run(["report", str(folder), "--format", name])
    return code, out.getvalue(), errors


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            yield from places(each, (*path, key))


def mutated(value, chance):
    """The value with one of its parts replaced, or taken away."""
    *above, last = chance.choice(list(places([value]))[1:])
    holder = whole = [value]
    for key in above:
        holder = holder[key]
    if chance.random() < 0.15 and above:
        del holder[last]
    else:
        holder[last] = chance.choice(VALUES)
    return json.dumps(whole[0])


def damage(folder, chance):
    """Change one value in one line of one file."""
    files = [*sorted(folder.glob("*.json*")), *2 * list(folder.glob("rank*"))]
    path = chance.choice(files)
    text = path.read_text()
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    place = chance.randrange(len(lines))
    lines[place] = mutated(json.loads(lines[place]), chance)
    path.write_text("\n".join(lines) + "\n")


def test_no_random_damage_ends_in_a_traceback(recorded, tmp_path):
    chance = random.Random(SEED)
    outcomes = []
    for number in range(MUTATIONS):
        folder = shutil.copytree(recorded, tmp_path / str(number))
        damage(folder, chance)
        code, out, errors = reported(folder, chance.choice(formats()))
        outcomes.append(code)
        assert all(isinstance(each, PitstopError) for each in errors), errors
        assert (code, bool(errors)) in {(0, False), (2, True)}
        assert "\x1b" not in out
    assert {0, 2} == set(outcomes)


def test_what_is_damaged_is_left_out_and_said(copy):
    (path,) = copy.glob("rank*")
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, '{"fetched": [1, "x"], "number": 0}', *rest]) + "\n")
    code, out, _ = reported(copy)
    assert code == 0
    assert "the recording is damaged: 1 part of it left out" in out


@pytest.mark.parametrize("name", ["run.json", "machine.json", "source.json"])
@pytest.mark.parametrize(
    "content", ["", "{", "null", "[]", '{"schema": 99, "kind": "Run"}', '{"schema": 1}', "[" * 9999]
)
def test_a_file_that_is_no_recording_is_one_line(name, content, copy):
    (copy / name).write_text(content)
    code, _, (error,) = reported(copy)
    assert (code, isinstance(error, PitstopError)) == (2, True)
    assert name in str(error)


@pytest.mark.parametrize("name", ["run.json", "machine.json", "about.json", "host.jsonl", "rank*"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to itself", "device"])
def test_what_is_no_file_neither_hangs_nor_ends_in_a_traceback(name, kind, copy):
    (path,) = copy.glob(name)
    path.unlink()
    {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link to itself": lambda: path.symlink_to(path.name),
        "device": lambda: path.symlink_to("/dev/zero"),
    }[kind]()
    code, _, errors = reported(copy)
    assert all(isinstance(each, PitstopError) for each in errors), errors
    assert code in {0, 2}


def test_a_recording_from_a_stranger_shows_no_file_of_this_machine(copy):
    private = copy.parent / "diary.py"
    private.write_text("x = torch.zeros(4)  # dear diary\nloss = x.sum().item()\n" * 9)
    (path,) = copy.glob("rank*")
    text = path.read_text()
    told = json.loads(next(line for line in text.splitlines() if '"loader":{' in line))
    path.write_text(text.replace(told["loader"]["made"][0], str(private)))
    for name in formats():
        code, out, _ = reported(copy, name)
        assert code == 0
        assert "diary.py" in out or name in {"github", "sarif"}
        assert "dear diary" not in out


def test_excerpts_are_those_of_the_run_without_its_secrets(recorded, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert any("train.py" in each for each in (recorded / "source.json").read_text().splitlines())
    kept = (recorded / "source.json").read_text()
    assert "optimizer = torch.optim.Adam" in kept
    assert "0123456789" not in kept
    script = recorded.parents[2] / "train.py"
    script.write_text("# edited since\n" * 20)
    assert "edited since" not in reported(recorded, "html")[1]
    script.write_text(SCRIPT)
