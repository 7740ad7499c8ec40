import json
from pathlib import Path

import pytest

from pitstop.cli.main import run
from pitstop.scan.decode import UnreadableError
from pitstop.scan.notebook import read_notebook
from pitstop.scan.run import Options, scan, scan_and_fix

STEP = "    loss = model(x).mean()\n    loss.backward()\n    t += loss.item()\n"
LOOP = f"for x in train_loader:\n{STEP}"
OPTIONS = Options(use_cache=False, jobs=1)


def notebook(*cells, **metadata):
    """Cells of a notebook as Jupyter writes them; a text is code, a pair has its own kind."""
    pairs = [each if isinstance(each, tuple) else ("code", each) for each in cells]
    made = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in pairs]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / ".pitstop"))


def test_code_cells_are_one_text_and_lines_know_their_cell():
    found = read_notebook(notebook(("markdown", "# Title"), "a = 1\nb = 2", "c = 3"))
    assert found.text == "a = 1\nb = 2\nc = 3"
    assert [found.place(line) for line in (1, 2, 3)] == [(2, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if gpu:\n    !nvidia-smi\ny = !ls", "if gpu:\n    pass\npass"),
        ("model?\nx = 1", "pass\nx = 1"),
        ("x = (7\n% 4)", "x = (7\n% 4)"),
        ("%%time\nx = 1", "pass\nx = 1"),
        ("%%bash\nls -l", ""),
        ("print 'old'", ""),
    ],
)
def test_what_only_ipython_runs_is_left_out(cell, code):
    assert read_notebook(notebook(cell)).text == code


def test_another_language_is_not_python():
    assert read_notebook(notebook("x = 1", kernelspec={"language": "R"})).text == ""


def test_what_is_no_notebook_is_said():
    with pytest.raises(UnreadableError):
        read_notebook("{}")


def test_a_finding_names_cell_and_line_and_the_one_of_its_loop():
    Path("play.ipynb").write_text(notebook("import torch", LOOP))
    found = scan([Path()], OPTIONS).findings
    assert [(each.code, each.span.place) for each in found] == [("PIT201", "play.ipynb:cell 2:4")]
    assert "loop over train_loader at play.ipynb:cell 2:1" in found[0].message


def test_a_loop_in_a_notebook_makes_a_function_of_a_file_hot():
    Path("play.ipynb").write_text(
        notebook("from steps import tell", "for x in train_loader:\n    tell(x)")
    )
    Path("steps.py").write_text("import torch\ndef tell(x):\n    return torch.sum(x).item()\n")
    found = scan([Path()], OPTIONS).findings
    assert [(each.code, each.span.path) for each in found] == [("PIT201", "steps.py")]
    assert "play.ipynb:cell 2:2" in found[0].message


def test_a_notebook_is_never_written():
    text = notebook("import torch\nfor x in train_loader:\n    y = torch.zeros(8).to(device)")
    Path("play.ipynb").write_text(text)
    scanned = scan_and_fix([Path()], OPTIONS, unsafe=True)
    assert [each.code for each in scanned.report.findings] == ["PIT202"]
    assert scanned.report.findings[0].fix is None
    assert not scanned.changes


def test_a_comment_in_a_cell_silences_its_line():
    Path("play.ipynb").write_text(notebook(LOOP.replace("item()", "item()  # pitstop: ignore")))
    assert not scan([Path()], OPTIONS).findings


def test_formats_say_the_cell(capsys):
    Path("play.ipynb").write_text(notebook(LOOP))
    for name, said in (("terminal", "play.ipynb:cell 1:4:10"), ("github", "cell 1, line 4: ")):
        run(["scan", "--format", name])
        assert said in capsys.readouterr().out
    run(["scan", "--format", "sarif"])
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["locations"][0]["message"]["text"] == "cell 1, line 4"
    assert "region" not in result["locations"][0]["physicalLocation"]
