"""Builders: the line of the user's text that made a module, by the name it was given there.

A module is an attribute of another, or a variable or attribute of the script. The text that sets
that name is where a reader looks first; that it says ``self.head =`` is all that is asked of it.
"""

from collections.abc import Iterator

import torch

from pitstop.profile.inspect.tree import Tree
from pitstop.profile.source.holders import Holders
from pitstop.profile.source.lines import NOWHERE, Place
from pitstop.profile.source.sources import assigning_line, files_of

MOST_MODULES = 300  # whose lines are looked for; they share a few attributes in a few files


def built_at(
    tops: list[torch.nn.Module], tree: Tree, wanted: set[int], holders: Holders
) -> list[tuple[str, Place]]:
    """The modules on the way to these parameters, given by id, and the lines that made them.

    A module in a list has no line of its own; that of the list is its.
    """
    found: list[tuple[str, Place]] = []
    for top in tops:
        names = [name for name, each in top.named_parameters() if id(each) in wanted]
        for path in sorted({path for name in names for path in _from_root(name)}):
            line = _line(top, path, holders)
            if line != NOWHERE:
                found.append((tree.path(top.get_submodule(path)), line))
    return found[:MOST_MODULES]


def _line(top: torch.nn.Module, path: str, holders: Holders) -> Place:
    if path:
        above, _, attribute = path.rpartition(".")
        return assigning_line(f"self.{attribute}", files_of(type(top.get_submodule(above))))
    holder = holders.of(top)
    return assigning_line(holder.name, [holder.path]) if holder.name else NOWHERE


def _from_root(name: str) -> Iterator[str]:
    """``""``, ``a`` and ``a.b`` of the parameter ``a.b.weight``."""
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(len(parts)))
