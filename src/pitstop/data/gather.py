"""Gather: one file's look after the other becomes counts, means and first examples."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePosixPath
from statistics import fmean

from pitstop.data.dataset import Examples, Kind, Place, Problem, Role
from pitstop.data.layout import LABELS, main_files
from pitstop.data.look import Look
from pitstop.data.names import checksum, stem_of
from pitstop.data.walk import more

MOST_REMEMBERED = 200_000  # files compared by content and size, some 100 MB; the rest is not
USUAL = 0.7  # of the files have one shape or factor; below that they are meant to vary
MOSTLY_BLACK = 0.5  # of the opened files: from there on they are masks, and black is a value
MOST_SHAPES = 10_000  # different ones that are counted
Sized = tuple[str, tuple[int, int]]  # a path, and its width and height
DECODERS: dict[Kind, str] = {"picture": "Pillow", "tensor": "Pitstop's reader", "video": "av"}


@dataclass(slots=True)
class _OfRole:
    """What is known of one role so far."""

    opened: int = 0
    decoded: int = 0
    numbers: float = 0.0
    read_ms: float = 0.0
    reads: int = 0
    decode_ms: float = 0.0
    decodes: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    faster: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    black: Examples = field(default_factory=Examples)
    modes: dict[str, Examples] = field(default_factory=lambda: defaultdict(Examples))
    odd: dict[str, Examples] = field(default_factory=lambda: defaultdict(Examples))

    def add(self, look: Look) -> None:
        """One more file that could be read."""
        self.opened += 1
        self._add_time(look)
        if look.numbers:
            self.decoded += 1
            self.numbers += look.numbers
        if look.shape and (look.shape in self.shapes or len(self.shapes) < MOST_SHAPES):
            self.shapes[look.shape] += 1
            self.sizes[look.size] += 1
            self.odd[look.shape] = more(self.odd[look.shape], look.job.path)
        if look.black:
            self.black = more(self.black, look.job.path)
        if look.mode:
            self.modes[look.mode] = more(self.modes[look.mode], look.job.path)

    def _add_time(self, look: Look) -> None:
        if look.read_ms is not None:
            self.reads += 1
            self.read_ms += look.read_ms
        if look.decode_ms is not None:
            self.decodes += 1
            self.decode_ms += look.decode_ms
        for name, took_ms in look.faster:
            self.faster[name].append(took_ms)


class Gathered:
    """All that was seen of the opened files."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = places
        self.roles: dict[tuple[str, Kind], _OfRole] = defaultdict(_OfRole)
        self.troubles: dict[str, Examples] = defaultdict(Examples)
        self.bad: dict[str, Examples] = defaultdict(Examples)
        self.by_content: dict[int, tuple[str, int]] = {}
        self.same: dict[str, Examples] = defaultdict(Examples)
        self.leaked, self.large = Examples(), Examples()
        self.partners: dict[int, dict[str, Sized]] = {}
        self.opened = 0
        self.video_frames = 0
        self.video_lengths: dict[int, Examples] = defaultdict(Examples)
        self.forgotten = False

    def add(self, look: Look) -> None:
        """One more file."""
        if look.large:
            self.large = more(self.large, look.job.path)
            return
        self.opened += 1
        place = self.places[look.job.place]
        if look.trouble:
            if look.trouble != "empty":  # which the walk has counted
                self.troubles[look.trouble] = more(self.troubles[look.trouble], look.job.path)
            return
        self.roles[place.role, look.job.kind].add(look)
        self.video_frames += look.frames
        if look.frames and (
            look.frames in self.video_lengths or len(self.video_lengths) < MOST_SHAPES
        ):
            known = self.video_lengths[look.frames]
            self.video_lengths[look.frames] = more(known, look.job.path)
        if look.bad:
            self.bad[look.bad] = more(self.bad[look.bad], look.job.path)
        if len(self.by_content) >= MOST_REMEMBERED:
            self.forgotten = True
            return
        told_apart = not look.plain and not LABELS.search(place.role)
        if look.job.kind == "picture" and look.digest and told_apart:
            self._compare_content(look, place)
        if place.role and look.job.kind == "picture" and look.size != (0, 0):
            self._remember_size(look, place)

    def _compare_content(self, look: Look, place: Place) -> None:
        path, before = self.by_content.setdefault(look.digest, (look.job.path, look.job.place))
        other = self.places[before]
        if path == look.job.path:
            return
        pair = f"{look.job.path} = {path}"
        if other.split != place.split:
            self.leaked = more(self.leaked, pair)
        elif other.role != place.role:
            what = "partners are the same picture"
            self.same[what] = more(self.same[what], pair)
        else:
            self.same["the same picture twice"] = more(self.same["the same picture twice"], pair)

    def _remember_size(self, look: Look, place: Place) -> None:
        name = stem_of(PurePosixPath(look.job.path).stem)
        key = checksum(f"{place.split}/{place.item}/{name}")
        self.partners.setdefault(key, {})[place.role] = (look.job.path, look.size)

    def unequal(self) -> list[Problem]:
        """Partners whose sizes differ by another factor than usual."""
        pairs: dict[tuple[str, str], list[tuple[Sized, Sized]]] = defaultdict(list)
        for partners in self.partners.values():
            for one, other in combinations(sorted(partners), 2):
                pairs[one, other].append((partners[one], partners[other]))
        found: dict[str, Examples] = defaultdict(Examples)
        for (one, other), sizes in pairs.items():
            factors = Counter(a[1][0] / b[1][0] for a, b in sizes)
            factor = factors.most_common(1)[0][0]
            odd = [(a, b) for a, b in sizes if not _fits(a[1], b[1], factor)]
            if len(odd) > (1 - USUAL) * len(sizes):
                continue  # they are not meant to have one factor
            for a, b in odd:
                told = f"{a[0]} ({_times(a[1])}) and {b[0]} ({_times(b[1])})"
                found[f"{one} and {other}"] = more(found[f"{one} and {other}"], told)
        return [Problem("unequal", examples, where) for where, examples in found.items()]

    def unlike(self) -> list[Problem]:
        """Tensors of another shape or type than most of their role."""
        return [
            Problem(f"{shape} instead of {usual}", role.odd[shape], name)
            for (name, kind), role in self.roles.items()
            if kind == "tensor"
            for usual, often in role.shapes.most_common(1)
            for shape in role.shapes
            if often >= USUAL * role.opened and shape != usual
        ]

    def black(self) -> list[Problem]:
        """Black pictures and tensors of zeros, of roles in which they are rare."""
        return [
            Problem("all black" if kind == "picture" else "all zero", role.black, name)
            for (name, kind), role in self.roles.items()
            if role.black and role.black.count < MOSTLY_BLACK * role.opened
        ]

    def modes(self) -> list[Problem]:
        """Pictures with other channels than most of their role."""
        return [
            Problem(f"{mode} instead of {usual}", examples, name)
            for (name, _), role in self.roles.items()
            if role.modes and not LABELS.search(name)
            for usual in [max(role.modes, key=lambda mode: role.modes[mode].count)]
            for mode, examples in role.modes.items()
            if mode != usual and role.modes[usual].count >= USUAL * role.opened
        ]

    def described(self) -> tuple[Role, ...]:
        """Each role with the means of what was measured."""
        return tuple(self._role(*key, seen) for key, seen in sorted(self.roles.items(), key=_name))

    def _role(self, name: str, kind: Kind, seen: _OfRole) -> Role:
        files = [
            files
            for place in self.places
            if place.role == name and (files := main_files(place.folder)) and files.kind == kind
        ]
        shape = seen.shapes.most_common(1)
        return Role(
            name,
            kind,
            Counter(each.suffix for each in files).most_common(1)[0][0],
            sum(each.count for each in files),
            sum(each.bytes for each in files),
            seen.opened,
            shape[0][0] if shape else "",
            len(seen.shapes),
            seen.numbers / seen.decoded if seen.decoded else 0.0,
            seen.read_ms / seen.reads if seen.reads else None,
            seen.decode_ms / seen.decodes if seen.decodes else None,
            DECODERS[kind] if seen.decodes else "",
            tuple((other, fmean(times)) for other, times in seen.faster.items()),
            seen.sizes.most_common(1)[0][0] if seen.sizes else (0, 0),
        )


def _name(item: tuple[tuple[str, Kind], _OfRole]) -> tuple[str, Kind]:
    return item[0]


def problems(found: dict[str, Examples]) -> tuple[Problem, ...]:
    """What was found under each heading."""
    return tuple(Problem(what, examples) for what, examples in found.items())


def _fits(one: tuple[int, int], other: tuple[int, int], factor: float) -> bool:
    """Whether one is the other by the factor, but for what is lost when a size is rounded."""
    slack = max(1.0, factor)
    return all(abs(a - factor * b) < slack for a, b in zip(one, other, strict=True))


def _times(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"
