"""What is secret in a command stays with its user: no file, no report, no listing has it."""

import stat

import pytest

from pitstop.cli import main
from pitstop.cli import tune as cli_tune
from pitstop.cli.formats import formats, renderer
from pitstop.tune import session
from pitstop.tune.session import Session

SECRET = "hf_Zx81kQ"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return tmp_path


def everything_in(folder):
    return "".join(each.read_text() for each in folder.rglob("*") if each.is_file())


def test_no_file_report_or_listing_of_a_run_has_it(project, capfd):
    assert main.run(["profile", "train.py", "--hf-token", SECRET, f"--url=s://me:{SECRET}@h"]) == 0
    assert main.run(["runs"]) == 0
    for name in formats():
        assert main.run(["report", "last", "--format", name]) == 0
        path = f"report{renderer(name).SUFFIX}"
        assert main.run(["report", "last", "--output", path]) == 0
    assert main.run(["compare", f"HF_TOKEN={SECRET} train.py", "train.py"]) == 2
    said = "".join(capfd.readouterr())
    assert "--hf-token ***" in said
    assert SECRET not in said + everything_in(project)


def test_a_recording_is_its_owners_alone(project):
    main.run(["profile", "train.py"])
    for each in (project / ".pitstop").rglob("*"):
        assert stat.S_IMODE(each.stat().st_mode) == (0o700 if each.is_dir() else 0o600), each


@pytest.mark.parametrize("words", [["profile"], ["run", "--with", "kept.toml"], ["tune"]])
def test_the_mask_never_runs(words, project, capsys):
    (project / "train.py").write_text("print('it ran')")
    (project / "kept.toml").write_text('schema = 1\n[[change]]\nname = "tf32"\n')
    assert main.run([*words, "train.py", "--hf-token", "***"]) == 2
    assert capsys.readouterr().err.startswith("pitstop: *** stands for a secret")
    assert not (project / ".pitstop").exists()


def test_a_search_keeps_no_secret_and_asks_for_it_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    typed = ("train.py", "--hf-token", "hf_abc", "--lr", "1")
    folder = session.begin(tmp_path, Session(("python", *typed), typed))
    assert "hf_abc" not in "".join(each.read_text() for each in folder.rglob("*.json"))
    asked = []
    monkeypatch.setattr(cli_tune, "pit_stop", lambda given, *_: asked.append(given) or 1 / 0)
    assert main.run(["tune", "--resume", "last"]) == 2
    said = capsys.readouterr().err
    assert f"pitstop tune --resume {folder.name} train.py --hf-token *** --lr 1" in said
    assert main.run(["tune", "--resume", "last", "train.py", "--hf-token", "***", "--lr", "1"]) == 2
    assert "type its value" in capsys.readouterr().err
    assert main.run(["tune", "--resume", "last", "train.py", "--lr", "2"]) == 2
    assert "leave --resume away" in capsys.readouterr().err
    assert asked == []
    main.run(["tune", "--resume", "last", *typed])
    assert asked[0].typed == typed
    assert asked[0].words[1:] == typed
