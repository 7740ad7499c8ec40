"""The live row: free of what others print, and gone at the end. Shown in a real terminal."""

import shlex
import shutil
import subprocess
import sys
import time

import pytest

from pitstop.core.last_row import LastRow

TMUX = shutil.which("tmux")
PRINTING = """
import sys, time
from pitstop.core.last_row import LastRow
row = LastRow()
with row:
    print("half a line", end="", flush=True)
    row.show("the row")
    print(", its end", flush=True)
    for number in range(40):
        print(f"\\rbar {number}", end="\\n" if number % 2 else "", flush=True)
        row.show(f"row {number} " + "x" * 200)
    input("ready? ")
print("after")
"""


@pytest.fixture
def terminal(tmp_path):
    """A terminal of 40 columns and 10 rows that runs a program; a function reads its screen."""
    server = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]

    def tmux(*words):
        return subprocess.run([*server, *words], capture_output=True, text=True, check=True).stdout

    def screen_with(text):
        for _ in range(600):
            lines = tmux("capture-pane", "-p").splitlines()
            if any(text in line for line in lines):
                return lines
            time.sleep(0.1)
        raise AssertionError("\n".join(lines))

    def started(program):
        (tmp_path / "program.py").write_text(program)
        command = f"{shlex.join([sys.executable, str(tmp_path / 'program.py')])}; echo over; cat"
        tmux("new-session", "-d", "-x", "40", "-y", "10", command)
        return screen_with, tmux

    yield started
    subprocess.run([*server, "kill-server"], check=False, capture_output=True)


@pytest.mark.skipif(not TMUX, reason="no tmux to look at a terminal with")
def test_others_print_above_it_and_their_bars_stay_whole(terminal):
    screen_with, tmux = terminal(PRINTING)
    lines = screen_with("ready?")
    bars = [f"bar {number}" for number in range(25, 40, 2)]
    assert [line.rstrip() for line in lines] == [*bars, "ready?", f"row 39 {'x' * 32}"]
    tmux("send-keys", "Enter")
    lines = screen_with("over")
    assert [line.rstrip() for line in lines][-4:] == ["ready?", "after", "over", ""]
    assert not any("row" in line for line in lines)


def test_where_stderr_is_no_terminal_nothing_is_written(capfd):
    with LastRow() as row:
        assert not row.is_there
        row.show("anything")
    assert capfd.readouterr() == ("", "")
