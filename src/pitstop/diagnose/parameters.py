"""Parameters: which modules own those that no gradient reaches or no optimizer holds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pitstop.core.evidence import Evidence
from pitstop.diagnose.calls import CallTree, pattern, starred

Named = tuple[tuple[str, int], ...]  # name and size of each parameter


@dataclass(frozen=True, slots=True)
class Owned:
    """Parameters of one module, or of modules that differ in their numbers only."""

    name: str  # the module's path; empty: the outermost module itself
    parameters: tuple[str, ...]
    numbers: int


def never_called(evidence: Evidence) -> list[Owned]:
    """Modules that an optimizer trains, and that the inspected step did not call."""
    found = evidence.parameters
    if found is None or evidence.step_kind != "optimizer":
        return []
    outside = {name for name, _ in found.outside_optimizer}
    called = {call.path for call in evidence.calls}
    alive = {ancestor for path in called for ancestor in _from_root(path)}
    dead: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, size in found.without_gradient:
        first = next(
            (each for each in _from_root(name.rpartition(".")[0]) if each not in alive), ""
        )
        if first and name not in outside:
            dead[first].append((name, size))
    return list(_merged(dead))


def roots_of(tree: CallTree, named: Named) -> list[int]:
    """The outermost calls that ran these parameters' modules, the first of each module.

    A parameter of an outermost module itself has no path; that module is known by its size.
    """
    modules = {name.rpartition(".")[0] for name, _ in named}
    bare = sum(size for name, size in named if "." not in name)
    roots: dict[str, int] = {}
    for position, call in enumerate(tree.calls):
        if call.path in modules or (bare and call.parent < 0 and call.parameters == bare):
            root = [position, *tree.above(position)][-1]
            roots.setdefault(tree.calls[root].path, root)
    return list(roots.values())


def _merged(modules: dict[str, list[tuple[str, int]]]) -> Iterator[Owned]:
    """Modules in a list are one: ``blocks.*.head``."""
    alike: dict[str, list[str]] = defaultdict(list)
    for path in modules:
        alike[starred(path)].append(path)
    for paths in alike.values():
        yield _owned(pattern(paths), [each for path in paths for each in modules[path]])


def _owned(name: str, members: Iterable[tuple[str, int]]) -> Owned:
    members = list(members)
    return Owned(name, tuple(name for name, _ in members), sum(size for _, size in members))


def _from_root(path: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    parts = path.split(".") if path else []
    return (".".join(parts[: length + 1]) for length in range(len(parts)))
