"""What is secret in a command stays with its user: no file, no report, no listing has it."""

import stat

import pytest

from pitstop.cli import main
from pitstop.cli.formats import formats, renderer
from pitstop.core.errors import PitstopError

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


def test_a_search_keeps_no_secret_but_runs_with_it(project, monkeypatch):
    asked = []

    def stop(given, *_):
        asked.append(given)
        raise PitstopError("enough")

    monkeypatch.setattr("pitstop.cli.tune.pit_stop", stop)
    assert main.run(["tune", "train.py", "--hf-token", SECRET]) == 2
    assert asked[0].words[-1] == SECRET
    assert SECRET not in everything_in(project)
