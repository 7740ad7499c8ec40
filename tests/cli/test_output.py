"""Where a report is to go is checked before anything runs, and it is shown when that fails."""

import os
import stat

import pytest

from examples import REPORT
from pitstop.cli import main
from pitstop.cli.formats import formats, renderer
from pitstop.cli.output import Output
from pitstop.core import store
from pitstop.core.errors import PitstopError

SCRIPT = "raise SystemExit('it ran')\n"
COMMANDS = {
    "profile": ["profile", "--output", "OUT", "train.py"],
    "profile --from": ["profile", "--from", "last", "--output", "OUT"],
    "tune": ["tune", "--output", "OUT", "train.py"],
    "compare": ["compare", "train.py", "train.py", "--output", "OUT"],
    "scan": ["scan", "train.py", "--output", "OUT"],
    "doctor": ["doctor", "--no-limits", "--output", "OUT"],
    "report": ["report", "last", "--output", "OUT"],
}
HOPELESS = {
    "no such suffix": "res.xyz",
    "the script itself": "train.py",
    "somebody's text": "notes.md",
    "a folder that is a file": "train.py/a.html",
    "a folder": "folder.html",
    "a device": "/dev/null",
    "a pipe": "pipe.html",
    "a folder that takes nothing": "/proc/a.html",
    "a name without end": f"{'a' * 300}.html",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "notes.md").write_text("# my notes\n")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("name", HOPELESS.values(), ids=HOPELESS)
def test_nothing_runs_where_the_report_could_not_be_written(name, words, place, capfd):
    before = sorted(place.iterdir())
    assert main.run([name if each == "OUT" else each for each in words]) == 2
    said = capfd.readouterr()
    assert said.err.startswith("pitstop: ")
    assert said.err.count("\n") == 1
    assert "it ran" not in said.err + said.out
    assert name in said.err
    assert sorted(place.iterdir()) == before
    assert (place / "train.py").read_text() == SCRIPT


def test_force_replaces_what_is_there(place):
    assert main.run(["scan", "train.py", "--output", "notes.md", "--force"]) == 0
    assert (place / "notes.md").read_text().startswith("### pitstop scan")


@pytest.mark.parametrize("name", formats())
def test_a_report_replaces_an_older_one_and_an_empty_file(name, tmp_path, capsys):
    path = tmp_path / f"report{renderer(name).SUFFIX}"
    path.touch()
    for _ in range(2):
        Output(None, path).write(REPORT)
    assert path.read_text(encoding="utf-8") == renderer(name).render(REPORT)
    assert capsys.readouterr().err.count("report written to") == 2


def test_a_link_is_replaced_not_followed(place):
    (place / "mine.html").write_text("mine")
    (place / "r.html").symlink_to("mine.html")
    with pytest.raises(PitstopError, match="not ours"):
        Output(None, place / "r.html")
    Output(None, place / "r.html", force=True).write(REPORT)
    assert (place / "mine.html").read_text() == "mine"


@pytest.mark.parametrize("failing", ["core.store.write_text", "report.to_html.render"])
def test_whatever_fails_at_the_end_the_report_is_shown(failing, tmp_path, monkeypatch, capsys):
    output = Output(None, tmp_path / "a.html")

    def full(*_, **__):
        raise PitstopError("cannot write a.html: No space left on device")

    monkeypatch.setattr(f"pitstop.{failing}", full)
    with pytest.raises(PitstopError, match="No space"):
        output.write(REPORT)
    assert capsys.readouterr().out.startswith("Verdict")


def test_a_report_has_the_rights_of_other_files_and_a_recording_is_its_owners(tmp_path):
    before = os.umask(0o027)
    try:
        store.write_text(tmp_path / "a.md", "x")
        store.save(tmp_path / "deep" / "er" / "run.json", REPORT)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.md").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "deep" / "er" / "run.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep" / "er").stat().st_mode) == 0o700


def test_a_recorded_machine_replaces_a_machine_and_nothing_else(place):
    assert main.run(["doctor", "--no-limits", "--save", "box.json"]) in {0, 1}
    assert main.run(["doctor", "--no-limits", "--save", "box.json"]) in {0, 1}
    assert main.run(["doctor", "--no-limits", "--save", "train.py"]) == 2
    assert (place / "train.py").read_text() == SCRIPT
