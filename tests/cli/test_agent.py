"""A coding agent is told in its own format, which is chosen by itself."""

from pathlib import Path

import pytest

from pitstop.cli import agent, main

BAD = "import torch\n\n\ndef f(x):\n    return torch.zeros(2, 2).to(x.device)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(BAD)


@pytest.mark.parametrize("name", agent.KNOWN)
def test_the_variable_of_a_known_agent_chooses_the_format(name, folder, monkeypatch, capsys):
    monkeypatch.setenv(name, "1")
    main.run(["scan", "net.py"])
    assert capsys.readouterr().out.startswith("pitstop-agent 1 scan\n")


def test_a_format_or_a_file_that_was_asked_for_prevails(folder, monkeypatch, capsys):
    monkeypatch.setenv("CLAUDECODE", "1")
    main.run(["scan", "--format", "terminal", "net.py"])
    assert capsys.readouterr().out.startswith("Verdict")
    main.run(["scan", "--output", "found.md", "net.py"])
    assert Path("found.md").read_text().startswith("### pitstop scan")


def test_without_an_agent_nothing_changes(folder, monkeypatch, capsys):
    monkeypatch.setenv("CLAUDECODE", "0")
    main.run(["scan", "net.py"])
    assert capsys.readouterr().out.startswith("Verdict")


@pytest.mark.parametrize(
    ("words", "code", "cause", "then"),
    [
        (
            ["profile", "no.py"],
            "could-not-run",
            "no.py: no such file",
            "give a script, a command, or -m MODULE",
        ),
        (["scan", "--nope"], "usage", "No such option", "pitstop scan --help"),
    ],
)
def test_errors_are_code_cause_and_next(words, code, cause, then, folder, monkeypatch, capsys):
    monkeypatch.setenv("GEMINI_CLI", "1")
    assert main.run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, second, third = err.splitlines()
    assert first == f"error: {code}"
    assert second.startswith(f"cause: {cause}")
    assert third == f"next: {then}"


def test_errors_are_for_an_agent_where_its_format_is_asked_for(folder, capsys):
    assert main.run(["data", "nowhere", "--format", "agent"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert main.run(["data", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("pitstop: ")
