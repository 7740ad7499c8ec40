"""Pace: how far a run is, which the recorded process writes down twice a second for who waits."""

import os
from pathlib import Path

from pitstop.profile.hooks.attempt import attempt

NAME = "pace"  # the file of a recording
EVERY_US = 500_000


class Pace:
    """In the recorded process: tells of its steps. Of several ranks only the first does."""

    def __init__(self, folder: str) -> None:
        ranked = os.environ.get("RANK") or os.environ.get("LOCAL_RANK", "0")
        self._path = Path(folder) / NAME if ranked == "0" else None
        self._told_us = 0

    def step_ended(self, done: int, at_us: int) -> None:
        """So many steps are done at this time."""
        if self._path and at_us - self._told_us > EVERY_US:
            self._told_us = at_us
            attempt(self._path.write_text, f"{done} {at_us}")


class PaceSeen:
    """In the process that waits: the steps, and the time of one since the last look."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._last = (0, 0)
        self.steps = 0
        self.step_ms: float | None = None  # until two times are known

    def look(self) -> None:
        """Read what was told by now; a line that is just being written is read next time."""
        try:
            done, at_us = map(int, self._path.read_text().split())
        except (OSError, ValueError):
            return
        last_done, last_us = self._last
        if done > last_done:
            self.step_ms = (at_us - last_us) / 1e3 / (done - last_done) if last_done else None
        if (done, at_us) != self._last:
            self._last, self.steps = (done, at_us), done
