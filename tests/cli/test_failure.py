"""Whatever goes wrong is one line and exit 2; what nobody foresaw leaves its traceback."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pitstop.cli import main

PITSTOP = f"{sys.executable} -m pitstop"


def failing_with(error):
    def fail(**_):
        raise error

    return fail


def bash(command, **options):
    found = subprocess.run(
        ["bash", "-c", command], capture_output=True, check=False, errors="replace", **options
    )
    assert "Traceback" not in found.stderr
    return found


@pytest.mark.parametrize(
    "error", [ValueError("two\nlines \x1b[2J"), RecursionError(), MemoryError(), KeyError("k")]
)
def test_an_exception_anywhere_is_one_line_that_names_the_file_of_its_traceback(
    error, monkeypatch, capsys
):
    monkeypatch.setattr("pitstop.cli.rules.command.callback", failing_with(error))
    assert main.run(["rules"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pitstop: unexpected {type(error).__name__}")
    assert said.count("\n") == 1
    assert said.strip().isprintable()
    path = re.search(r"traceback is in (\S+):", said)[1]
    assert "in fail" in Path(path).read_text(encoding="utf-8")


def test_without_room_for_a_file_the_line_names_the_place(monkeypatch, capsys):
    def full(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("pitstop.cli.rules.command.callback", failing_with(ValueError("odd")))
    monkeypatch.setattr("tempfile.mkstemp", full)
    assert main.run(["rules"]) == 2
    assert re.search(r"ValueError: odd; raised at \S+test_failure.py:\d+", capsys.readouterr().err)


def test_a_full_disk_is_said_as_such(monkeypatch, capsys):
    error = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("pitstop.cli.rules.command.callback", failing_with(error))
    assert main.run(["rules"]) == 2
    assert capsys.readouterr().err.startswith("pitstop: No space left on device: make some room")


def test_no_command_shows_the_help_and_could_not_run(capsys):
    assert main.run([]) == 2
    assert "\nUsage: pitstop" in f"\n{capsys.readouterr().err}"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"{PITSTOP} rules > /dev/full", 2),
        (f"set -o pipefail; {PITSTOP} rules | true", 141),
        (f"set -o pipefail; {PITSTOP} explain PIT001 | true", 141),
        (f"{PITSTOP} rules >&-", 0),
        (f"{PITSTOP} nonsense 2>&-", 2),
        (f"{PITSTOP} nonsense 2>/dev/full", 2),
        (f"{PITSTOP} explain PIT000 <&- >&- 2>&-", 2),
        (f"mkdir gone; cd gone; rmdir ../gone; {PITSTOP} runs", 2),
        (f"PYTHONIOENCODING=ascii {PITSTOP} rules", 0),
        (f"LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {PITSTOP} rules", 0),
        (f"env -u HOME TMPDIR=/nowhere COLUMNS=1 {PITSTOP} rules", 0),
        (f"{PITSTOP} explain $'\\xff'", 2),
    ],
)
def test_a_stream_that_cannot_be_written_is_no_traceback(command, code, tmp_path):
    assert bash(command, cwd=tmp_path).returncode == code


def test_what_a_terminal_obeys_is_written_out_in_errors(tmp_path):
    found = bash(f"{PITSTOP} report $'\\e]52;c;x\\a' ; {PITSTOP} $'\\e[2J'", cwd=tmp_path)
    assert r"\x1b]52" in found.stderr
    assert "\x1b" not in found.stderr


def test_a_disk_full_after_the_run_costs_neither_its_report_nor_its_exit_code(
    tmp_path, monkeypatch, capfd
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit(7)\n")
    monkeypatch.setattr("pitstop.cli.profile.keep_surroundings", full)
    assert main.run(["profile", "train.py"]) == 7
    said = capfd.readouterr().err
    assert "pitstop: No space left on device: make some room" in said
    assert "the script ended with an error of its own" in said
