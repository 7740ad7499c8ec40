"""Partners: files that others ask for and that are not there; names are kept as checksums."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pitstop.data.dataset import Examples, Files, Kind, Place, Problem
from pitstop.data.layout import is_captioned, main_files
from pitstop.data.names import checksum, part_of, stem_of
from pitstop.data.walk import more, names_of

MOSTLY = 0.6  # of the samples are whole
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
    if layout == "unpaired":
        return []
    yet = [*_empty(places), *_incomplete(places, layout), *_beside_each_other(root, places)]
    items: Items = defaultdict(dict)
    alive = {place.split for place in places if place.count}
    for place in places:
        if place.role and place.split in alive:
            items[place.split, place.item][place.role] = place
    usual = _usual(items.values())
    sides = [_roles(roles, usual) for roles in items.values()]
    return [*yet, *_folders(items, usual), *_files(root, sides)]


def _empty(places: Sequence[Place]) -> Iterator[Problem]:
    """Clips and classes whose folder holds nothing at all, beside others that do."""
    full = Counter(_above(place) for place in places if place.count and not place.role)
    empty = Examples()
    for place in places:
        folder = place.folder
        anything = folder.files or folder.others or folder.notes or folder.folders
        if place.item and not place.role and not anything and full[_above(place)]:
            empty = more(empty, folder.path)
    if empty:
        yield Problem("empty", empty, "of clips or classes")


def _beside_each_other(root: Path, places: Sequence[Place]) -> Iterator[Problem]:
    """``0003_sharp.png`` that is missing where ``0003_blur.png`` is in the same folder."""
    found: dict[str, Examples] = defaultdict(Examples)
    for place in places:
        files = main_files(place.folder)
        if files is None or len({(part.count, part.names) for part in files.parts}) < 2:
            continue
        names: dict[str, dict[str, str]] = defaultdict(dict)  # by what they share, then by word
        for name in names_of(root, place.folder.path, files.kind):
            word, rest = part_of(stem_of(PurePosixPath(name).stem))
            names[rest][word] = name
        whole = [each for each in names.values() if len(each) == len(files.parts)]
        if len(whole) < MOSTLY * len(names):
            continue  # these words are no partners
        for each in names.values():
            for part in files.parts:
                if part.word not in each:
                    beside = str(PurePosixPath(place.folder.path) / next(iter(each.values())))
                    found[part.word] = more(found[part.word], beside)
    for word, examples in found.items():
        yield Problem(f"no {word or 'plain'} file beside", examples, word)


def _above(place: Place) -> str:
    return place.folder.path.rpartition("/")[0]


def _incomplete(places: Sequence[Place], layout: str) -> Iterator[Problem]:
    """Triplets of which a frame is missing."""
    if layout not in {"triplets", "short sequences"}:
        return
    usual = Counter(place.count for place in places if place.count).most_common(1)[0][0]
    short = Examples()
    for place in places:
        if 0 < place.count < usual:
            short = more(short, place.folder.path)
    if short:
        yield Problem(f"folders with fewer than the usual {usual} frames", short, "sequences")


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
    there, wanted = place.role.split(" "), role.split(" ")
    parts = place.folder.path.split("/")
    if len(there) == len(wanted):
        names = dict(zip(there, wanted, strict=True))
        parts = [_instead(part, names) for part in parts]
    return "/".join(parts)


def _instead(part: str, names: dict[str, str]) -> str:
    """``train_sharp`` becomes ``train_blur``."""
    for name, wanted in names.items():
        if part == name or part.endswith(f"_{name}"):
            return part.removesuffix(name) + wanted
    return part


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
    for index, side in enumerate(sides):
        others = set[int]().union(*sums[:index], *sums[index + 1 :])
        if sums[index] and sums[index].isdisjoint(others):
            continue  # names of another kind altogether: they are matched by something else
        for stem in _spelled(root, sides, others - sums[index]):
            yield side, stem


def _checksums(root: Path, side: Side) -> set[int]:
    names = names_of(root, side.path, side.kind)
    return {checksum(stem_of(PurePosixPath(name).stem)) for name in names}


def _spelled(root: Path, sides: list[Side], wanted: set[int]) -> list[str]:
    """The names behind checksums, in order, each once."""
    if not wanted:
        return []
    names = (name for side in sides for name in names_of(root, side.path, side.kind))
    stems = (stem_of(PurePosixPath(name).stem) for name in names)
    return sorted({stem for stem in stems if checksum(stem) in wanted})
