"""The command ``pitstop data`` from arguments to exit code."""

import json

import pytest

from data.builders import clips
from pitstop.cli.main import run


@pytest.fixture(scope="module")
def short_clips(tmp_path_factory):
    return clips(tmp_path_factory.mktemp("clips"), splits=("Train",), number=2, frames=4)


def test_the_verdict_comes_first_and_each_finding_has_its_cure(short_clips, capsys):
    assert run(["data", str(short_clips), "--window", "5", "--batch", "2", "--step-ms", "50"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("Verdict  This dataset is broken: 1 error, 1 warning beside.")
    assert "PIT107 2 of 2 clips have at most 4 frames, fewer than 5: Train/GOPR_Train_0" in printed
    assert "→ a window of 4 takes them all" in printed
    assert "workers for a step of 50 ms" in printed


def test_nothing_to_mend_is_exit_code_0(short_clips, capsys):
    assert run(["data", str(short_clips / "Train"), "--frames", "3"]) == 0
    assert "Nothing is wrong with this dataset: 24 files." in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".json", ".html", ".md"])
def test_every_format_holds_the_findings(short_clips, tmp_path, suffix):
    path = tmp_path / f"report{suffix}"
    assert run(["data", str(short_clips), "--window", "5", "--output", str(path)]) == 1
    text = path.read_text()
    assert "PIT107" in text
    assert "spike" in text
    if suffix == ".json":
        assert json.loads(text)["command"] == "data"


def test_a_missing_path_is_one_line(capsys):
    assert run(["data", "no-such-folder"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("pitstop: no-such-folder: No such file or directory: give the folder")
    assert printed.count("\n") == 1
