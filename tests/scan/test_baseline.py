import json
from pathlib import Path

import pytest

from pitstop.cli.main import run

LINE = "    total += loss.item()\n"
OLD = f"for x in train_loader:\n    loss = model(x).mean()\n    loss.backward()\n{LINE}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / ".pitstop"))
    Path("a.py").write_text(OLD)
    run(["scan", "--write-baseline", "old.json"])
    return tmp_path


def test_what_the_baseline_knows_is_not_told(capsys):
    assert run(["scan", "--baseline", "old.json"]) == 0
    assert "1 finding of old.json not shown" in capsys.readouterr().out


def test_lines_may_move(capsys):
    Path("a.py").write_text("# a comment\n\n" + OLD)
    assert run(["scan", "--baseline", "old.json"]) == 0


def test_the_same_line_once_more_is_new(capsys):
    again = OLD.replace("for x in train_loader", "for x in other_loader")
    Path("a.py").write_text(f"{OLD}\n\n{again}")
    capsys.readouterr()
    assert run(["scan", "--baseline", "old.json"]) == 1
    out = capsys.readouterr().out
    assert "a.py:10:" in out
    assert "a.py:4:" not in out


def test_paths_count_from_the_folder_of_the_baseline(folder, monkeypatch):
    assert json.loads(Path("old.json").read_text())["findings"][0]["path"] == "a.py"
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    assert run(["scan", "..", "--baseline", "../old.json"]) == 0
    assert run(["scan", ".."]) == 1


def test_writing_renews_it_and_reports_nothing(capsys):
    Path("a.py").write_text(OLD + OLD.replace("train_loader", "other_loader"))
    capsys.readouterr()
    assert run(["scan", "--baseline", "old.json", "--write-baseline", "old.json"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "old.json knows 2 findings\n")
    assert run(["scan", "--baseline", "old.json"]) == 0


def test_a_known_finding_is_not_fixed():
    Path("b.py").write_text(
        "import torch\nfor x in train_loader:\n    y = torch.zeros(8).to(dev)\n"
    )
    Path("b.py").write_text(Path("b.py").read_text().replace("dev)", "x.device)"))
    before = Path("b.py").read_text()
    run(["scan", "--write-baseline", "old.json"])
    run(["scan", "--baseline", "old.json", "--fix", "--unsafe-fixes"])
    assert Path("b.py").read_text() == before
    run(["scan", "--fix", "--unsafe-fixes"])
    assert Path("b.py").read_text() != before


@pytest.mark.parametrize("text", [None, "{}", "not json"])
def test_without_a_baseline_that_can_be_read_nothing_runs(text, capsys):
    if text is not None:
        Path("other.json").write_text(text)
    assert run(["scan", "--baseline", "other.json"]) == 2
    assert "other.json" in capsys.readouterr().err
