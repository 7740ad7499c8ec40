"""``pitstop rules``: every rule, one line each."""

import importlib
from pathlib import Path
from typing import Any

import click

import pitstop
from pitstop.core.rule import Rule, load_rules
from pitstop.report.rule_page import index, means
from pitstop.scan.plugins import rule_plugins

EXAMPLES = """\b
Examples:
  pitstop rules                        code, means, name and summary of each
  pitstop rules --markdown             the pages of all rules, as in docs/rules.md
"""


def every_rule() -> list[Rule[Any]]:
    """The rules of every room that has a folder ``rules``, by code."""
    folders = sorted(Path(pitstop.__path__[0]).glob("*/rules/__init__.py"))
    names = [f"pitstop.{folder.parent.parent.name}.rules" for folder in folders]
    packages = [importlib.import_module(name) for name in names]
    rules = [rule for package in packages for rule in load_rules(package)]
    return sorted(rules, key=lambda rule: (rule.code, means(rule)))


def known_rules() -> list[Rule[Any]]:
    """Every rule, those of installed plugins last."""
    return [*every_rule(), *rule_plugins().found]


@click.command(epilog=EXAMPLES)
@click.option("--markdown", is_flag=True, help="Print the page of every rule.")
def command(markdown: bool) -> None:
    """List every rule, those of plugins too."""
    if markdown:
        click.echo(index(every_rule()), nl=False)
        return
    rules = known_rules()
    width = max(len(rule.name) for rule in rules)
    for rule in rules:
        click.echo(f"{rule.code}  {means(rule):<7}  {rule.name:<{width}}  {rule.summary}")
