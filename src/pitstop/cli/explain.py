"""``pitstop explain``: one rule's page."""

import difflib

import click
from rich.console import Console
from rich.markdown import Markdown

from pitstop.cli.rules import known_rules
from pitstop.core.errors import PitstopError
from pitstop.report.rule_page import page

EXAMPLES = """\b
Examples:
  pitstop explain PIT001
  pitstop explain gpu-arch-not-in-torch-build
"""


@click.command(epilog=EXAMPLES)
@click.argument("rule")
def command(rule: str) -> None:
    """Print why RULE (its code or name) exists, with a bad and a good example."""
    rules = known_rules()
    wanted = rule.strip().lower()
    found = [each for each in rules if wanted in {each.code.lower(), each.name}]
    if not found:
        names = [each.code for each in rules] + [each.name for each in rules]
        close = difflib.get_close_matches(wanted, names) or difflib.get_close_matches(
            wanted.upper(), names
        )
        hint = f"did you mean {close[0]}?" if close else "`pitstop rules` lists them all"
        raise PitstopError(f"no rule {rule!r}: {hint}")
    console = Console()
    if console.is_terminal:
        console.print(Markdown(page(found)), soft_wrap=True)
    else:
        click.echo(page(found))
