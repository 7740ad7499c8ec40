"""Parameters: which modules own those that no gradient reaches or no optimizer holds."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.evidence import NOWHERE, Evidence, Line
from pitstop.diagnose.facts.calls import CallTree, pattern, starred

Named = tuple[tuple[str, int], ...]  # name and size of each parameter


@dataclass(frozen=True, slots=True)
class Owned:
    """Parameters of one module, or of modules that differ in their numbers only."""

    name: str  # the module's path
    parameters: tuple[str, ...]
    numbers: int
    made: Line = NOWHERE


def never_called(evidence: Evidence) -> list[Owned]:
    """Modules that an optimizer trains, and that the inspected step did not call."""
    found = evidence.parameters
    if found is None or evidence.step_kind != "optimizer":
        return []
    outside = {name for name, _ in found.outside_optimizer}
    called = {call.path for call in evidence.calls}
    alive = {ancestor for path in called for ancestor in _from_root(path)} | set(found.tops)
    dead: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, size in found.without_gradient:
        first = next(
            (each for each in _from_root(name.rpartition(".")[0]) if each not in alive), ""
        )
        if first and name not in outside:
            dead[first].append((name, size))
    return list(_merged(dead, dict(found.made)))


def roots_of(tree: CallTree, named: Named) -> list[int]:
    """The outermost calls that ran these parameters' modules, the first of each module."""
    modules = {name.rpartition(".")[0] for name, _ in named}
    roots: dict[str, int] = {}
    for position, call in enumerate(tree.calls):
        if call.path in modules:
            root = [position, *tree.above(position)][-1]
            roots.setdefault(tree.calls[root].path, root)
    return list(roots.values())


def unlearned(tree: CallTree, unused: Named) -> list[int]:
    """The outermost calls none of whose parameters is learned, the first of each module.

    Those are unused or frozen, and not all of them frozen.
    """
    numbers: Counter[str] = Counter()
    for name, size in unused:
        numbers.update(dict.fromkeys(_from_root(name.rpartition(".")[0]), size))
    frozen: Counter[str] = Counter()
    sizes = {each.path: each.parameters for each in tree.calls if each.frozen and each.parameters}
    for path, size in sizes.items():
        *above, _ = _from_root(path)
        if sizes.keys().isdisjoint(above):
            frozen.update(dict.fromkeys((*above, path), size))
    whole = {
        each.path
        for each in tree.calls
        if 0 < numbers[each.path] >= each.parameters - frozen[each.path]
    }
    roots: dict[str, int] = {}
    for position, call in enumerate(tree.calls):
        if call.path in whole and not any(
            tree.calls[x].path in whole for x in tree.above(position)
        ):
            roots.setdefault(call.path, position)
    return list(roots.values())


def loss_networks(tree: CallTree, unused: Named) -> set[str]:
    """Networks that only judge: none of them is learned, and they are not meant to be.

    They are in evaluation mode, or also judge what no gradient comes from, such as the target.
    """
    found = set()
    for root in unlearned(tree, unused):
        calls = [call for call in tree.calls if call.path == tree.calls[root].path]
        judges = any(call.fed for call in calls) and not all(call.fed for call in calls)
        if judges or not any(call.training for call in calls):
            found.add(tree.calls[root].path)
    return found


def _merged(modules: dict[str, list[tuple[str, int]]], made: dict[str, Line]) -> Iterator[Owned]:
    """Modules in a list are one: ``blocks.*.head``."""
    alike: dict[str, list[str]] = defaultdict(list)
    for path in modules:
        alike[starred(path)].append(path)
    for paths in alike.values():
        members = [each for path in paths for each in modules[path]]
        names = tuple(name for name, _ in members)
        line = next((made[path] for path in paths if path in made), NOWHERE)
        yield Owned(pattern(paths), names, sum(size for _, size in members), line)


def _from_root(path: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    parts = path.split(".") if path else []
    return (".".join(parts[: length + 1]) for length in range(len(parts)))
