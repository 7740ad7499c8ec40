"""Writer: appends a process's recording to its file, a few times a second, and stays small.

One JSON object per line. Long runs are thinned: past ``FULL_ROWS`` only every second window of
slices is kept, then every fourth, and so on; the rest is counted in a ``gap`` line. A run of a
million steps takes about ten megabytes, and what is kept is kept whole.
"""

import hashlib
import json
import os
from itertools import chain, count
from pathlib import Path
from typing import Any

from pitstop.core.private import private
from pitstop.profile.hooks.attempt import complain

FULL_ROWS = 20_000  # slices written before thinning begins, and again at each doubling
WINDOW_ROWS = 256  # slices kept or left out together, so that neighbouring steps stay together
FLUSH_US = 500_000  # what a killed process loses at most, besides what is only noted
AT_ONCE_ROWS = 64  # the first slices are written one by one: runs that crash do so early


class Writer:
    """One file of lines. Nothing is created until there is something to write."""

    def __init__(self, folder: str, redact: bool = False) -> None:
        rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK", "0")
        self._path = _free(Path(folder), f"rank{rank}-{os.getpid()}")
        self._hide = hidden if redact else lambda value: value
        self._rows: list[list[Any]] = []  # slices not yet written
        self._lines: list[str] = []
        self._flushed_us = 0
        self._seen = 0
        self._kept = 0
        self._stride = 1
        self._gap = 0
        self._broken = False

    def row(self, row: list[Any]) -> None:
        """Write one slice with the next flush. A row begins with its time, in microseconds."""
        self._rows.append(row)
        if self._seen < AT_ONCE_ROWS or row[0] - self._flushed_us > FLUSH_US:
            self._flushed_us = row[0]
            self.flush()

    def line(self, value: Any) -> None:
        """Write one line with the next flush, after the slices that came before it."""
        self._close_rows()
        self._lines.append(_encoded(self._hide(value)))

    def line_now(self, value: Any) -> None:
        """Write one line that must survive whatever happens next."""
        self.line(value)
        self.flush()

    def flush(self) -> None:
        """Hand all lines to the operating system; a full or read-only disk ends the writing."""
        self._close_rows()
        lines, self._lines = self._lines, []
        if self._broken or not lines:
            return
        try:
            with open(self._path, "a", encoding="utf-8", opener=private) as stream:
                stream.write("\n".join(lines) + "\n")
        except OSError as error:
            self._broken = True
            complain(f"recording stopped: {self._path}: {error.strerror}")

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        self._close_gap()
        self.flush()

    def _close_rows(self) -> None:
        """Turn the slices at hand into lines: encoding them together costs a fraction."""
        rows, self._rows = self._rows, []
        kept: list[list[Any]] = []
        for row in rows:
            if self._is_kept():
                if self._gap:
                    self._lines += [_encoded({"slices": kept})] if kept else []
                    self._close_gap()
                    kept = []
                kept.append(row)
            else:
                self._gap += 1
        if kept:
            self._lines.append(_encoded({"slices": kept}))

    def _is_kept(self) -> bool:
        """Whether the next slice is kept; of a very long run most are left out."""
        window = self._seen // WINDOW_ROWS
        self._seen += 1
        kept = window % self._stride == 0
        self._kept += kept
        whole = self._seen % WINDOW_ROWS == 0
        if whole and self._kept >= FULL_ROWS * self._stride.bit_length():
            self._stride *= 2
        return kept

    def _close_gap(self) -> None:
        if self._gap:
            self._lines.append(_encoded({"gap": self._gap}))
            self._gap = 0


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def hidden(value: Any) -> Any:
    """A value with every path in it replaced by a name that tells files apart, and nothing more."""
    if isinstance(value, dict):
        return {key: hidden(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(each) for each in value]
    if isinstance(value, str) and ("/" in value or "\\" in value or value.endswith(".py")):
        return f"file-{hashlib.sha256(value.encode()).hexdigest()[:8]}"
    return value


def _free(folder: Path, stem: str) -> Path:
    """A name that is not taken: a process that started itself anew keeps its number."""
    names = chain((f"{stem}.jsonl",), (f"{stem}-{each}.jsonl" for each in count(2)))
    return next(path for path in map(folder.joinpath, names) if not path.exists())
