"""Activity: how often the script calls its models, and how much it says, while its numbers count.

A script that catches whatever fails and goes on may do less with a change, and be faster for that:
its losses are as before where what fails comes after them.
"""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pitstop.profile.hooks.patch import Undo, patch, with_callbacks
from pitstop.tune.plan import ACTIVITY, CALLS, LINES, speaks

LIBRARY = "torch"  # whose own messages depend on how it is used


class Activity:
    """Counts, and writes the counts down when asked."""

    def __init__(self, folder: Path, counts: Callable[[], bool], undos: list[Undo]) -> None:
        self._path = folder / ACTIVITY
        self._counts = counts
        self._found = {CALLS: 0, LINES: 0}
        with suppress(AttributeError, TypeError):  # there is none, or it is not Python's own
            undos.append(patch((sys.stdout,), "write", self._writes))
        undos.append(patch((logging.Logger,), "handle", self._logs))

    def called(self) -> None:
        """A model was called by the script itself."""
        self._found[CALLS] += 1

    def write(self) -> None:
        """What was done, all in all."""
        if speaks():
            with suppress(OSError):  # no count is as good as none that was written
                self._path.write_text(json.dumps(self._found), encoding="utf-8")

    def _writes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return with_callbacks(original, lambda given: self._said(str(given[0][0]).count("\n")))

    def _logs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def begins(given: Any) -> None:
            logger = given[0][0]
            self._said(0 if logger.name.partition(".")[0] == LIBRARY else 1)

        return with_callbacks(original, begins)

    def _said(self, lines: int) -> None:
        if self._counts():
            self._found[LINES] += lines
