"""Baseline: the findings that an old project lives with for now, so that only new ones are told.

An entry is the file, the code and the text of the line, not its number: lines may move.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.finding import Finding
from pitstop.core.reading import read_regular
from pitstop.core.units import count
from pitstop.scan.text import LINE_END

Entry: TypeAlias = tuple[str, str, str]  # absolute path, code, text of the line

LARGEST_BYTES = 100_000_000  # some 500,000 entries
LONGEST_TEXT = 200  # characters of a line that tell it from others


class Known(msgspec.Struct):
    """An entry as it is written; its path counts from the folder of the baseline."""

    path: str
    code: str
    text: str
    count: int = 1


class Document(msgspec.Struct):
    """The whole file."""

    version: int
    findings: list[Known]


@dataclass(frozen=True, slots=True)
class Baseline:
    """How often each entry is known."""

    entries: Mapping[Entry, int] = field(default_factory=dict)

    def split(self, entries: Iterable[Entry]) -> list[bool]:
        """Whether each is new, the known ones taken in order."""
        left = Counter(self.entries)
        new = []
        for entry in entries:
            new.append(left[entry] <= 0)
            left[entry] -= 1
        return new


def entry_of(finding: Finding, texts: Mapping[str, str]) -> Entry:
    """What a finding is known by, given the texts that were scanned."""
    if finding.span is None:
        return finding.item, finding.code, finding.message
    lines = LINE_END.split(texts.get(finding.span.path, ""))
    number = finding.span.line - 1
    text = lines[number] if number < len(lines) else ""
    path = os.path.abspath(finding.span.path)  # noqa: PTH100 Path keeps `..`
    return path, finding.code, text.strip()[:LONGEST_TEXT]


def read_baseline(file: Path) -> Baseline:
    """What was written before; raises ``PitstopError`` when there is none."""
    try:
        document = msgspec.json.decode(read_regular(file, LARGEST_BYTES), type=Document)
    except FileNotFoundError:
        raise PitstopError(f"{file} is missing: --write-baseline {file} makes it") from None
    except (OSError, msgspec.MsgspecError) as error:
        why = getattr(error, "strerror", "") or error
        raise PitstopError(f"{file} is no baseline ({why}): write it anew") from None
    entries: Counter[Entry] = Counter()
    for each in document.findings:
        entries[_absolute(each.path, file), each.code, each.text] += each.count
    return Baseline(entries)


def write_baseline(file: Path, entries: Iterable[Entry]) -> str:
    """Write all entries, in order, and say so."""
    counted = sorted(Counter(entries).items())
    known = [
        Known(_stored(path, file), code, text, number) for (path, code, text), number in counted
    ]
    data = msgspec.json.format(msgspec.json.encode(Document(1, known)), indent=1)
    store.write_bytes(file, data + b"\n")
    return f"{file} knows {count(sum(each.count for each in known), 'finding')}"


def _stored(path: str, file: Path) -> str:
    """Relative to the baseline's folder: the same wherever the project is checked out."""
    return Path(os.path.relpath(path, file.absolute().parent)).as_posix()


def _absolute(path: str, file: Path) -> str:
    return os.path.normpath(file.absolute().parent / path)
