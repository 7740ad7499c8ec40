"""What a command prints on a terminal, as a picture for the README.

    python benchmarks/picture.py docs/profile.svg --first 33 -- pitstop report ID

Only standard output is drawn. `pitstop profile` leaves that to the script and reports on standard
error; `pitstop report` shows the same again.
"""

import argparse
import os
import pty
import subprocess
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 110
NO_FONTS = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace;
  font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font: bold 18px sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""  # rich's own loads a font from the network


def printed(command: list[str]) -> str:
    """What a command writes to a terminal of our width, colours included."""
    ours, theirs = pty.openpty()
    surroundings = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, env=surroundings):
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
    console.save_svg(str(arguments.picture), title=title, code_format=NO_FONTS)


if __name__ == "__main__":
    main()
