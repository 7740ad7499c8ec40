"""``pitstop skill``: what a coding agent is taught, printed or installed."""

from importlib.resources import files
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.cli.output import check_target
from pitstop.core import store
from pitstop.core.printable import printable
from pitstop.core.reading import read_regular

FILE = "SKILL.md"
FOLDER = "pitstop"  # agents look for DIR/NAME/SKILL.md
MARK = b"name: pitstop\n"  # in what was written by this
LARGEST_BYTES = 65_536  # a page; what is larger is not ours

EXAMPLES = """\b
Examples:
  pitstop skill                              print it
  pitstop skill --install .claude/skills     write .claude/skills/pitstop/SKILL.md
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--install",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write it to DIR/pitstop/SKILL.md, where agents look for skills.",
)
@click.option("--force", is_flag=True, help="Replace a file that is not ours.")
def command(install: Path | None, force: bool) -> None:
    """Teach a coding agent the loop: look, choose, edit, prove, keep or revert, stop."""
    text = files("pitstop.skill").joinpath(FILE).read_text(encoding="utf-8")
    if install is None:
        click.echo(text, nl=False)
        return
    target = install / FOLDER / FILE
    check_target(target, force, lambda path: MARK in read_regular(path, LARGEST_BYTES))
    target.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(target, text)
    say(f"written to {printable(str(target))}")
