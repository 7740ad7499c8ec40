"""Odd words and odd places: one line that says what to do, and nothing has run."""

import errno

import pytest

from pitstop.cli import main
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.profile.read.runs import Run
from pitstop.profile.start import launch


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "empty.toml").touch()
    store.save(tmp_path / ".pitstop/runs/20260101-a/run.json", Run(("python", "a.py"), "", 3))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["tune", "--budget", "nan", "train.py"],
        ["tune", "--budget", "inf", "train.py"],
        ["tune", "--only", "nope", "train.py"],
        ["doctor", "--batch-mb", "nan", "--no-limits"],
        ["data", "--step-ms", "nan", "."],
        ["compare", "last", "last", "--gate", "step<=1e999%"],
        ["compare", "last", "last", "--gate", "step<=nan%"],
        ["compare", "", ""],
        ["compare", "last", "last", "--metric", "("],
        ["report", ""],
        ["report", "/etc"],
        ["report", "last\n"],
        ["report", "a" * 5000],
        ["profile", "--from", ""],
        ["profile", "."],
        ["profile", "a" * 5000],
        ["run", "--with", "empty.toml", "train.py"],
        ["run", "--with", "/dev/zero", "train.py"],
        ["doctor", "--machine", "/dev/zero"],
        ["doctor", "--machine", "empty.toml"],
        ["scan", "nope"],
        ["explain", ""],
        ["bench", "../x"],
        ["logs", "/dev/zero"],
        ["data", "/dev/zero"],
        ["completion", "tcsh"],
    ],
)
def test_is_one_line_and_exit_2(words, place, capfd):
    assert main.run(words) == 2
    said = capfd.readouterr().err
    assert said.startswith("pitstop: ")
    assert said.count("\n") == 1
    assert "unexpected" not in said
    assert "it ran" not in said


def test_what_is_no_recording_does_not_hide_the_others(place, capsys):
    runs = place / ".pitstop" / "runs"
    (runs / "20990101-b" / "run.json").mkdir(parents=True)
    (runs / "file").touch()
    (runs / "loop").symlink_to("loop")
    store.save(runs / "20260102-c" / "run.json", Run(("python", "c.py"), "", 3))
    (runs / "20260102-c" / "run.json").write_text('{"schema": 99, "kind": "Run"}')
    assert main.run(["runs"]) == 0
    said = capsys.readouterr()
    assert "20260101-a" in said.out
    assert said.err.count("\n") == 1
    assert "upgrade" in said.err


def test_without_any_place_for_a_recording_there_is_one_line(tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system", "here")

    monkeypatch.setattr("pitstop.profile.start.launch.own_folder", read_only)
    monkeypatch.setattr("tempfile.mkdtemp", read_only)
    with pytest.raises(PitstopError, match="here: Read-only file system, nor is there a temporary"):
        launch.new_run_folder(tmp_path, "train.py")
