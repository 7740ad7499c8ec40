"""Partners: files that others ask for and that are not there, told without keeping names."""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pitstop.data.dataset import Examples, Files, Kind, Place, Problem
from pitstop.data.layout import is_captioned, main_files
from pitstop.data.names import checksum, stem_of
from pitstop.data.walk import more, names_of

USUAL = 0.5  # of the items have a role; where fewer do, it is an extra
Items = dict[tuple[str, str], dict[str, Place]]


@dataclass(frozen=True, slots=True)
class Side:
    """Files of one kind in one folder, each of which has a partner on every other side."""

    path: str
    kind: Kind
    role: str
    count: int
    names: int

    @property
    def suffix(self) -> str:
        """Of a caption that is missing; of others the name alone is told."""
        return ".txt" if self.kind == "text" else ""


def absent(root: Path, places: Sequence[Place], layout: str) -> list[Problem]:
    """Folders and files without their partner; texts missing beside pictures."""
    if layout == "captions":
        return list(_files(root, [_captions(place) for place in places]))
    items: Items = defaultdict(dict)
    alive = {place.split for place in places if place.count}
    for place in places:
        if place.role and place.split in alive:
            items[place.split, place.item][place.role] = place
    usual = _usual(items.values())
    sides = [_roles(roles, usual) for roles in items.values()]
    return [*_folders(items, usual), *_files(root, sides)]


def _usual(items: Iterable[dict[str, Place]]) -> list[str]:
    roles = list(items)
    seen = Counter(role for each in roles for role in each)
    return [role for role, times in seen.items() if times >= USUAL * len(roles)]


def _folders(items: Items, usual: list[str]) -> Iterator[Problem]:
    for role in usual:
        missing, empty = Examples(), Examples()
        for roles in items.values():
            if role not in roles:
                missing = more(missing, _beside(next(iter(roles.values())), role))
            elif not roles[role].count and not roles[role].folder.others:
                empty = more(empty, roles[role].folder.path)
        if empty:
            yield Problem("empty", empty, role)
        if missing:
            yield Problem("missing", missing, role)


def _beside(place: Place, role: str) -> str:
    """Where a missing folder would be."""
    parts = place.folder.path.split("/")
    return "/".join(role if part == place.role else part for part in parts)


def _captions(place: Place) -> list[Side]:
    files = {each.kind: each for each in place.folder.files}
    if not is_captioned(place.folder):
        return []
    text = files.get("text", Files("text", 0))
    pairs: tuple[tuple[str, Files], ...] = (("picture", files["picture"]), ("caption", text))
    return [
        Side(place.folder.path, each.kind, role, each.count, each.names) for role, each in pairs
    ]


def _roles(roles: dict[str, Place], usual: list[str]) -> list[Side]:
    known = [(role, main_files(roles[role].folder)) for role in usual if role in roles]
    return [
        Side(roles[role].folder.path, files.kind, role, files.count, files.names)
        for role, files in known
        if files
    ]


def _files(root: Path, items: Iterable[list[Side]]) -> Iterator[Problem]:
    found: dict[str, Examples] = defaultdict(Examples)
    for sides in items:
        if len({(side.count, side.names) for side in sides}) < 2:
            continue
        for side, stem in _lacking(root, sides):
            path = str(PurePosixPath(side.path) / f"{stem}{side.suffix}")
            found[side.role] = more(found[side.role], path)
    for role, examples in found.items():
        yield Problem("without partner", examples, role)


def _lacking(root: Path, sides: list[Side]) -> Iterator[tuple[Side, str]]:
    """The names that a side does not have and another one has."""
    sums = [_checksums(root, side) for side in sides]
    everything = array("q", sorted(set().union(*sums)))
    for side, own in zip(sides, sums, strict=True):
        lacking = {name for name in everything if not _holds(own, name)}
        if own and _disjoint(own, sums):
            continue  # names of another kind altogether: they are matched by something else
        for stem in _spelled(root, sides, lacking):
            yield side, stem


def _disjoint(own: "array[int]", sums: "list[array[int]]") -> bool:
    return not any(_holds(other, name) for other in sums if other is not own for name in own)


def _checksums(root: Path, side: Side) -> "array[int]":
    names = names_of(root, side.path, side.kind)
    return array("q", sorted(checksum(stem_of(PurePosixPath(name).stem)) for name in names))


def _holds(values: "array[int]", wanted: int) -> bool:
    index = bisect_left(values, wanted)
    return index < len(values) and values[index] == wanted


def _spelled(root: Path, sides: list[Side], wanted: set[int]) -> list[str]:
    """The names behind checksums, in order, each once."""
    found = {}
    for side in sides:
        for name in names_of(root, side.path, side.kind):
            stem = stem_of(PurePosixPath(name).stem)
            if checksum(stem) in wanted:
                found[checksum(stem)] = stem
    return sorted(found.values())
