import subprocess
import sys

import click
import pytest

from pitstop import __version__
from pitstop.cli import main
from pitstop.cli.formats import formats
from pitstop.core.errors import PitstopError

COMMANDS = main.command.list_commands(click.Context(main.command))


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)]
)
def test_every_help_has_examples(arguments, capsys):
    assert main.run(arguments) == 0
    assert "Examples:" in capsys.readouterr().out


def test_version(capsys):
    assert main.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["explain"], ["explain", "PIT000"], ["doctor", "--format", "gif"]]
)
def test_a_users_mistake_is_one_line_and_exit_2(arguments, capsys):
    assert main.run(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("pitstop: ")
    assert err.count("\n") == 1


def test_our_own_error_is_one_line_and_exit_2(monkeypatch, capsys):
    def fail(**_):
        raise PitstopError("no room: free some")

    monkeypatch.setattr("pitstop.cli.rules.command.callback", fail)
    assert main.run(["rules"]) == 2
    assert capsys.readouterr().err == "pitstop: no room: free some\n"


def test_explain_finds_by_code_and_by_name(capsys):
    assert main.run(["explain", "pit001"]) == 0
    by_code = capsys.readouterr().out
    assert main.run(["explain", "gpu-arch-not-in-torch-build"]) == 0
    assert capsys.readouterr().out == by_code
    assert "PIT001" in by_code
    assert "Bad:" in by_code


def test_explain_suggests_the_nearest_name(capsys):
    main.run(["explain", "gpu-arch-not-in-torch-buidl"])
    assert "did you mean gpu-arch-not-in-torch-build?" in capsys.readouterr().err


def test_rules_lists_each_with_its_summary(capsys):
    assert main.run(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PIT001")
    assert len(lines) >= 11


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell, capsys):
    assert main.run(["completion", shell]) == 0
    assert "_PITSTOP_COMPLETE" in capsys.readouterr().out


def test_formats_are_the_files_of_the_folder():
    assert {"json", "markdown", "terminal"} <= set(formats())


def test_nothing_imports_torch_until_it_must():
    names = ", ".join(f"pitstop.cli.{name}" for name in COMMANDS)
    code = f"import sys, pitstop, {names}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_python_m_pitstop_is_the_same_program():
    command = [sys.executable, "-m", "pitstop", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert __version__ in done.stdout


def test_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m pitstop rules | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("PIT001")
    assert done.stderr == ""
