"""What a command prints on a terminal, as a picture for the README.

    python benchmarks/picture.py docs/tune.svg -- pitstop demo

Only standard output is drawn. `pitstop profile` leaves that to the script and reports on standard
error; `pitstop report` shows the same again.
"""

import argparse
import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 110
FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # rich lets pictures load one from the network


def printed(command: list[str]) -> str:
    """What a command writes to a terminal of our width, colours included."""
    ours, theirs = pty.openpty()
    surroundings = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    try:
        process = subprocess.Popen(command, stdout=theirs, env=surroundings)
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")
    with process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so at the end of a terminal
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    if not parts:
        sys.exit(f"{command[0]} printed nothing, and ended with exit code {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def main() -> None:
    """Draw the screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--first", type=int, help="draw this many lines only")
    parser.add_argument("--title", help="what was typed, if not this command")
    parser.add_argument("command", nargs="+", help="after --")
    arguments = parser.parse_args()
    text = "\n".join(printed(arguments.command).strip().split("\n")[: arguments.first])
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    title = arguments.title or " ".join(arguments.command)
    arguments.picture.write_text(FONT.sub("", console.export_svg(title=title)), encoding="utf-8")


if __name__ == "__main__":
    main()
