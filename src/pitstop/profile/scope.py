"""Scope: which steps are looked at more closely, and how.

After warm-up come undisturbed steps, the baseline; then inspected ones; then a few whose line is
sampled. All others are left alone, and only those count as the step time.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pitstop.profile.inspector import Inspector
from pitstop.profile.options import Options
from pitstop.profile.sampler import Sampler
from pitstop.profile.watch import still_alive

SAMPLED_STEPS = 3  # enough to see the same line more than once


class Scope:
    """Looks at one step at a time."""

    def __init__(self, options: Options) -> None:
        self._first = options.warmup + options.baseline
        self._inspected = options.inspect
        self._trace = (
            Path(options.folder) / f"trace-{os.getpid()}.json.gz" if options.trace else None
        )
        self._inspector: Inspector | None = None
        self._sampler: Sampler | None = None
        self._optimizers: list[Any] = []
        self._born: list[Any] = []

    @property
    def active(self) -> bool:
        """Whether the current step is being looked at, and so is no baseline."""
        return self._inspector is not None or self._sampler is not None

    def wants(self, done: int) -> bool:
        """Whether the step after ``done`` finished ones should be looked at."""
        last = self._first + self._inspected + SAMPLED_STEPS
        return bool(self._inspected) and self._first <= done < last

    def step_begins(self, done: int, thread: int, optimizers: list[Any]) -> None:
        """Look at the step that begins now."""
        self._optimizers = optimizers
        if done < self._first + self._inspected:
            last = done == self._first + self._inspected - 1
            self._inspector = Inspector(done, self._trace if last else None)
            self._inspector.start()
        else:
            self._sampler = Sampler(thread)
            self._sampler.start()

    def step_ended(self, done: int) -> Iterator[dict[str, Any]]:
        """What was seen in the step that ends now, as lines for the recording."""
        if self._inspector:
            inspector, self._inspector = self._inspector, None
            yield inspector.stop(self._optimizers) | {"kept": still_alive(self._born)}
            self._born = inspector.watch.born if inspector.watch else []
        if self._sampler:
            sampler, self._sampler = self._sampler, None
            yield {"sampled": done - 1, "lines": sampler.stop()}
        if done >= self._first + self._inspected:
            self._born = []
