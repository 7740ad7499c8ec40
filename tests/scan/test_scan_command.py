import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pitstop.cli.main import run
from pitstop.cli.scan import command

BAD = "import torch\nfor x in train_loader:\n    x = x + torch.zeros(8).to(device)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / ".pitstop"))
    Path("a.py").write_text(BAD)
    return tmp_path


def test_findings_are_one_line_each_and_the_exit_code_is_1(capsys):
    assert run(["scan", "."]) == 1
    line = "a.py:3:13: PIT202 [*] Tensor is filled on the CPU, then copied to its device."
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a.py"], 1),
        (["--exit-zero"], 0),
        (["--ignore", "PIT202"], 0),
        (["--select", "PIT4,PIT207"], 0),
        (["--per-file-ignores", "a.py:PIT2"], 0),
        (["--exclude", "a.py"], 0),
        (["--fix"], 0),
        (["--diff"], 1),
        (["--diff", "--exit-zero"], 0),
        (["nope"], 2),
        (["--select", "PIT777"], 2),
        (["--per-file-ignores", "a.py"], 2),
        (["--unsafe-fixes"], 2),
        (["--format", "nope"], 2),
    ],
)
def test_exit_codes(arguments, code):
    assert run(["scan", *arguments]) == code


def test_fix_writes_and_says_so(capsys):
    run(["scan", "--fix"])
    captured = capsys.readouterr()
    assert captured.err == "fixed 1 in 1 file\n"
    assert "Nothing found" in captured.out
    assert Path("a.py").read_text() == BAD.replace("8).to(", "8, device=")


def test_diff_shows_and_writes_nothing(capsys):
    Path("a.py").write_text(BAD.rstrip("\n"))
    run(["scan", "--diff"])
    out = capsys.readouterr().out
    assert "-    x = x + torch.zeros(8).to(device)\n\\ No newline at end of file\n" in out
    assert "+    x = x + torch.zeros(8, device=device)\n" in out
    assert Path("a.py").read_text() == BAD.rstrip("\n")


def test_unsafe_fixes_are_not_applied_unless_asked_for(capsys):
    Path("a.py").write_text("import torch\ntorch.compile(self.net)\n")
    assert run(["scan", "--fix"]) == 1
    assert "self.net =" not in Path("a.py").read_text()
    assert run(["scan", "--fix", "--unsafe-fixes"]) == 0
    assert "self.net = torch.compile(self.net)" in Path("a.py").read_text()
    capsys.readouterr()


def test_statistics_count_by_rule(capsys):
    Path("b.py").write_text(BAD + "torch.compile(f)\n")
    run(["scan", "--statistics"])
    assert capsys.readouterr().out == (
        "     2  PIT202  [*]  tensor-built-on-cpu\n     1  PIT402  [ ]  compile-result-dropped\n"
    )


def test_the_report_goes_to_a_file_by_suffix():
    assert run(["scan", "--output", "scan.sarif"]) == 1
    assert json.loads(Path("scan.sarif").read_text())["version"] == "2.1.0"


@pytest.mark.parametrize("name", ["terminal", "json", "markdown", "sarif", "github"])
def test_every_format_names_the_finding(capsys, name):
    run(["scan", "--format", name])
    assert "PIT202" in capsys.readouterr().out


def test_a_file_in_an_encoding_that_cannot_hold_the_fix_is_an_error_not_a_loss(monkeypatch, capsys):
    data = b"# coding: latin-1\n" + BAD.encode()
    Path("a.py").write_bytes(data)
    monkeypatch.setattr(
        "pitstop.scan.run.encode", lambda text, _: text.encode() + "€".encode("latin-1")
    )
    assert run(["scan", "--fix"]) == 2
    assert "encoding" in capsys.readouterr().err
    assert Path("a.py").read_bytes() == data


def test_help_has_examples():
    output = CliRunner().invoke(command, ["--help"]).output
    assert "pitstop scan --fix" in output
    assert "Exit codes" in output


NOTE = "import torch\nx = torch.zeros(8).to(device)\n"


def test_what_is_true_and_worth_little_is_shown_when_asked_for(capsys):
    Path("a.py").write_text(NOTE)
    assert run(["scan"]) == 0
    out = capsys.readouterr().out
    assert "PIT202" not in out
    assert "1 note not shown: --all shows them" in out
    for more in (["--all"], ["--select", "PIT202"]):
        assert run(["scan", *more]) == 1
        assert "a.py:2:5: PIT202" in capsys.readouterr().out


def test_the_terminal_folds_and_files_and_all_do_not(capsys):
    Path("b.py").write_text(BAD)
    run(["scan"])
    out = capsys.readouterr().out
    assert "0 causes likely to cost you, 1 small: 2 findings in 2 of 2 files." in out
    assert "And 1 more like it: b.py:3" in out
    run(["scan", "--all"])
    assert "b.py:3:13: PIT202" in capsys.readouterr().out
    run(["scan", "--format", "json"])
    assert len(json.loads(capsys.readouterr().out)["findings"]) == 2
