"""Walk: every folder of a dataset, one tally for each; names are forgotten once counted."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.data.dataset import FIRST, Examples, Files, Folder, Kind, Part
from pitstop.data.names import Numbering, checksum, part_of, stem_of

SUFFIXES: dict[Kind, str] = {
    "picture": "png jpg jpeg jpe bmp webp tif tiff ppm pgm pnm gif jp2 exr hdr avif jxl",
    "tensor": "npy npz pt pth safetensors",
    "video": "mp4 mov avi mkv webm m4v mpg mpeg ts",
    "text": "txt caption",
}
KINDS: dict[str, Kind] = {
    f".{suffix}": kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes.split()
}
ABOUT = {  # notes, lists and code beside the data
    *(
        "",
        ".json",
        ".jsonl",
        ".yaml",
        ".yml",
        ".toml",
        ".ini",
        ".cfg",
        ".md",
        ".csv",
        ".tsv",
        ".xml",
    ),
    *(".py", ".ipynb", ".sh", ".log", ".html", ".pdf"),
}
WEIGHTS = re.compile(  # of a model, beside or among the data
    r"(.*[-_.])?(model|weights|lora|checkpoint|ckpt|optimizer|scheduler|best|last)([-_.].*)?"
    r"\.(safetensors|pth?)$"
)
MOST_PARTS = 4  # files of one folder that are one sample
EACH_PART = 0.8  # of their equal share of the files, at least
NOT_DATA = {
    "__pycache__",
    "__MACOSX",
    "@eaDir",
    "lost+found",
    "Thumbs.db",
}  # what systems leave behind


@dataclass(slots=True)
class _Tally:
    """Files of one kind while their folder is read; as small for a million as for ten."""

    count: int = 0
    bytes: int = 0
    names: int = 0
    suffixes: Counter[str] = field(default_factory=Counter)
    numbering: Numbering = field(default_factory=Numbering)
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)  # count and names, by word

    def add(self, stem: str, suffix: str, size: int) -> None:
        self.count += 1
        self.bytes += size
        self.suffixes[suffix] += 1
        self.names = (self.names + checksum(stem)) % 2**63
        self.numbering.add(stem)
        word, rest = part_of(stem)
        if word in self.parts or len(self.parts) <= MOST_PARTS:
            count, names = self.parts.get(word, (0, 0))
            self.parts[word] = count + 1, (names + checksum(rest)) % 2**63

    def files(self, kind: Kind) -> Files:
        suffix = self.suffixes.most_common(1)[0][0]
        parts = [Part(word, *counted) for word, counted in sorted(self.parts.items())]
        least = EACH_PART * self.count / max(1, len(parts))
        together = 1 < len(parts) <= MOST_PARTS and all(part.count >= least for part in parts)
        numbers = self.numbering.numbers()
        return Files(
            kind, self.count, self.bytes, suffix, self.names, numbers, tuple(parts) * together
        )


class Walk:
    """Goes through a dataset folder by folder, in the order of names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.skipped: list[str] = []
        self.zero_length = Examples()
        self.dangling = Examples()  # links to files that are not there
        self.seen: set[tuple[int, int]] = set()  # folders by device and number: links may turn back

    def folders(self) -> Iterator[Folder]:
        """Every folder from the top down; an ``Examples`` of empty files grows meanwhile."""
        try:
            with os.scandir(self.root):
                self._is_new(self.root.stat())
        except OSError as error:
            raise PitstopError(_cannot_be_read(self.root, error)) from None
        waiting = [""]
        while waiting:
            path = waiting.pop()
            try:
                folder, inside = self._one(path)
            except OSError as error:
                self.skipped.append(f"{path or self.root}: {error.strerror}")
                continue
            yield folder
            waiting += sorted(inside, reverse=True)

    def _one(self, path: str) -> tuple[Folder, list[str]]:
        tallies: dict[Kind, _Tally] = {}
        inside, others, notes = [], 0, 0
        for entry in self._entries(path):
            name = f"{path}/{entry.name}" if path else entry.name
            if entry.is_dir():
                if self._is_new(entry.stat()):
                    inside.append(name)
                continue
            stem, suffix = split_name(entry.name)
            kind = kind_of(entry.name)
            if kind is None or not entry.is_file():
                others += suffix not in ABOUT and suffix not in KINDS
                notes += suffix in ABOUT
                if kind and entry.is_symlink() and not os.path.exists(entry):  # noqa: PTH110 fast
                    self.dangling = more(self.dangling, name)
                continue
            size = entry.stat().st_size
            if size == 0:
                self.zero_length = more(self.zero_length, name)
            tallies.setdefault(kind, _Tally()).add(stem_of(stem), suffix, size)
        files = tuple(tallies[kind].files(kind) for kind in sorted(tallies))
        return Folder(path, files, others, len(inside), notes), inside

    def _entries(self, path: str) -> Iterator["os.DirEntry[str]"]:
        with os.scandir(self.root / path) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.name not in NOT_DATA:
                    yield entry

    def _is_new(self, status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        new = key not in self.seen or status.st_ino == 0  # Windows numbers no files here
        self.seen.add(key)
        return new


def names_of(root: Path, folder: str, kind: Kind) -> Iterator[str]:
    """The file names of one kind in one folder, as they come."""
    with os.scandir(root / folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and _kind(entry) == kind:
                yield entry.name


def kind_of(name: str) -> Kind | None:
    """What a model reads a file of this name as; None for weights, notes and unknown kinds."""
    kind = KINDS.get(split_name(name)[1])
    return None if kind == "tensor" and WEIGHTS.match(name) else kind


def split_name(name: str) -> tuple[str, str]:
    """Stem, and suffix in lower case."""
    stem, dot, suffix = name.rpartition(".")
    return (stem, f".{suffix.lower()}") if dot else (name, "")


def more(examples: Examples, name: str) -> Examples:
    """The examples with one more, named if it is among the first."""
    first = examples.first if examples.count >= FIRST else (*examples.first, name)
    return Examples(examples.count + 1, first)


def _kind(entry: "os.DirEntry[str]") -> Kind | None:
    kind = kind_of(entry.name)
    return kind if kind and entry.is_file() else None


def _cannot_be_read(root: Path, error: OSError) -> str:
    if root.exists() and not root.is_dir():
        return f"{root}: this is a file: give the folder that the dataset is in"
    return f"{root}: {error.strerror or error}: give the folder that the dataset is in"
