"""Plugins: rules of other packages, named by their entry points in ``pitstop.rules``."""

from pathlib import Path
from typing import Any

from pitstop.core.plugins import Plugins, load_plugins
from pitstop.core.rule import Rule

GROUP = "pitstop.rules"


def rule_plugins() -> Plugins[Rule[Any]]:
    """The rules of other packages."""
    return load_plugins(GROUP, Rule)


def plugin_state() -> list[str]:
    """What the cache must know of them: a rule that was edited has to run again."""
    files = [Path(rule.check.__code__.co_filename) for rule in rule_plugins().found]
    return [f"{file} {file.stat().st_mtime_ns}" for file in files if file.exists()]
