"""Sources: the files of the user's that a run was made of, and that a patch may edit."""

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pitstop.core.evidence import Evidence
from pitstop.core.finding import Edit
from pitstop.profile.source.lines import origin_of
from pitstop.scan.decode import Encoding, UnreadableError, decode
from pitstop.scan.edits import apply_edits, check_syntax
from pitstop.scan.files import EXCLUDED_FOLDERS, LARGEST_PYTHON_BYTES
from pitstop.scan.source import Source

INSTALLED = {*EXCLUDED_FOLDERS, "dist-packages"}  # folders of code that is not the user's own
MOST_FILES = 500  # that are read; a larger project is imported by no single script


@dataclass(frozen=True)
class UserFile:
    """One file as it was and as it is now, and where its first lines have gone."""

    before: bytes
    encoding: Encoding
    source: Source  # as it is now; its path is the name relative to the folder of the patch
    anchors: tuple[int, ...]  # offset, now, of the first word of each line that it had

    def line(self, number: int) -> int:
        """Where a line of the file as it was is now."""
        if not 1 <= number <= len(self.anchors):
            return 0
        return self.source.lines.position(self.anchors[number - 1])[0]

    def edited(self, edits: Sequence[Edit]) -> "UserFile":
        """The file after some edits; raises where they clash or it would no longer parse."""
        text = apply_edits(self.source.text, [replace(each, path="") for each in edits])
        check_syntax(text, self.source.path)
        anchors = tuple(_shifted(each, edits) for each in self.anchors)
        return replace(self, source=Source(text, self.source.path), anchors=anchors)


Files = dict[str, UserFile]


def _shifted(offset: int, edits: Sequence[Edit]) -> int:
    """Where a character is after some edits; one that was replaced is where its place begins."""
    moved = offset
    for edit in dict.fromkeys(edits):
        if edit.end <= offset:
            moved += len(edit.new) - (edit.end - edit.start)
        elif edit.start <= offset:
            moved -= offset - edit.start
    return moved


def script_of(words: Sequence[str], root: Path) -> Path | None:
    """The file that a command runs: the first ``*.py`` in it, or the module behind ``-m``."""
    module = False
    for word in words:
        found = _module_file(word, (root, root / "src", *_search_path())) if module else None
        if found and _is_users(found):
            return found  # a launcher is none, as in -m torch.distributed.run train.py
        if word.endswith(".py"):
            return root / word
        module = word == "-m"
    return None


def folder_of(script: Path | None, evidence: Evidence, here: Path) -> Path:
    """The folder that a patch is for: this one, or the project where the run has files elsewhere.

    The project of a script is the repository that it is in, else its own folder.
    """
    if script is None or not _is_users(script):
        return here
    above = script.resolve().parents
    project = next((each for each in above if (each / ".git").exists()), above[0])
    files = [here / each for each in _mentioned(evidence)]
    if not any(name_in(each, here) for each in files):
        files.append(script)
    elsewhere = any(name_in(each, project) and not name_in(each, here) for each in files)
    return project if elsewhere else here


def read_files(script: Path | None, evidence: Evidence, here: Path) -> tuple[Path, Files]:
    """The script, the files that the run's lines are in, and what they import, by name.

    Names are relative to the folder that a patch of them is for, which comes first.
    """
    root = folder_of(script, evidence, here)
    first = [script] if script else []
    waiting = [*first, *(here / each for each in _mentioned(evidence))]
    tops = dict.fromkeys((here, root))
    folders = [*tops, *(each / "src" for each in tops), *(each.parent for each in first)]
    found: dict[str, UserFile] = {}
    while waiting and len(found) < MOST_FILES:
        path = waiting.pop(0)
        name = name_in(path, root)
        if not name or name in found:
            continue
        file = _read(root / name, name)
        if file is not None:
            found[name] = file
            waiting += _imported(file.source, root / name, folders)
    return root, found


def digests(words: Sequence[str], evidence: Evidence, here: Path) -> dict[str, str]:
    """A checksum of each file that a command ran, by name; what is edited has another one."""
    root, files = read_files(script_of(words, here), evidence, here)
    return {
        name: hashlib.blake2b(each.before, digest_size=8).hexdigest()
        for name, each in files.items()
        if _is_users(root / name)
    }


def name_in(path: Path, root: Path) -> str:
    """The name of a file of the user's below ``root``, with slashes; empty for any other."""
    try:
        name = (root / path).resolve().relative_to(root.resolve())
    except ValueError:
        return ""
    return "" if INSTALLED & set(name.parts) or name.suffix != ".py" else name.as_posix()


def _is_users(path: Path) -> bool:
    return origin_of(str(path.resolve())) == "user"


def _mentioned(evidence: Evidence) -> Iterable[str]:
    lines = [loader.made for loader in evidence.loaders]
    lines += [loader.used for loader in evidence.loaders]
    lines += [optimizer.made for optimizer in evidence.optimizers]
    lines += [call.where for call in evidence.calls]
    lines += [operation.where for operation in evidence.operations]
    return dict.fromkeys(each.path for each in lines if each.path)


def _read(path: Path, name: str) -> UserFile | None:
    try:
        data = path.read_bytes()
        if len(data) > LARGEST_PYTHON_BYTES:
            return None
        text, encoding = decode(data)
        source = Source(text, name)
    except (OSError, UnreadableError, SyntaxError, ValueError):
        return None  # it has no place for a change that we could see
    lines = [*source.lines.starts, len(text)]
    anchors = []
    for start, end in pairwise(lines):
        line = text[start:end]
        anchors.append(start + len(line) - len(line.lstrip()) if line.strip() else start)
    return UserFile(data, encoding, source, tuple(anchors))


def _imported(source: Source, path: Path, folders: Sequence[Path]) -> Iterator[Path]:
    for node in source.nodes(ast.Import):
        for alias in node.names:
            yield from _module_files(alias.name, folders)
    for imported in source.nodes(ast.ImportFrom):
        bases: Sequence[Path] = folders
        if imported.level:
            bases = [path.parents[imported.level - 1]]
        module = imported.module or ""
        yield from _module_files(module, bases)
        for alias in imported.names:
            yield from _module_files(f"{module}.{alias.name}".lstrip("."), bases)


def _module_files(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    found = _module_file(name, folders) if name else None
    if found:
        yield found


def _module_file(name: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        stem = folder.joinpath(*name.split("."))
        for path in (stem.with_name(f"{stem.name}.py"), stem / "__main__.py", stem / "__init__.py"):
            if path.is_file():
                return path
    return None


def _search_path() -> Iterator[Path]:
    return (Path(each) for each in sys.path if each)
