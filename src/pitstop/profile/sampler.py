"""Sampler: which line runs, some hundred times a second, for time that nothing else explains."""

import sys
import threading
from typing import Any

from pitstop.profile.lines import user_line

EVERY_SECONDS = 0.004  # often enough for a step of 50 ms, rare enough to cost nothing


class Sampler:
    """Looks at one thread's current line until stopped."""

    def __init__(self, thread: int) -> None:
        self._watched = thread
        self._over = threading.Event()
        self._counts: dict[tuple[str, int, str], int] = {}
        self._thread = threading.Thread(target=self._look, name="pitstop-sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> list[list[Any]]:
        """Lines with the number of samples that found the thread there, most first."""
        self._over.set()
        self._thread.join()
        ranked = sorted(self._counts.items(), key=lambda item: -item[1])
        return [[*line, count] for line, count in ranked]

    def _look(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            frame = sys._current_frames().get(self._watched)
            line = user_line(frame)
            self._counts[line] = self._counts.get(line, 0) + 1
            del frame
