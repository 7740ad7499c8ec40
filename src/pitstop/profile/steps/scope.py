"""Scope: which steps are looked at more closely, and how.

After warm-up come undisturbed steps, the baseline, fewer where they take long; then inspected ones;
on a GPU three whose timeline is read; then every second step is sampled until there are samples
enough. All others are left alone, and only those count as the step time. What the first inspected
step made is asked for again two steps after the last one: what lives on by then is kept. A loss
that is not finite is looked into when its backward pass begins, and may ask for a further inspected
step.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pitstop.core.evidence import ENOUGH_SAMPLES
from pitstop.profile.forensics.nonfinite import Forensics
from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.inspect.inspector import Inspector
from pitstop.profile.inspect.kept import Trail, kept
from pitstop.profile.inspect.timeline import Timeline, can_begin, started
from pitstop.profile.record.sampler import Sampler
from pitstop.profile.record.workers import read_workers
from pitstop.profile.source.lines import Place
from pitstop.profile.start.options import Options

MOST_SAMPLED = 60  # steps; if they are shorter than the pauses between samples, so be it
LATER_STEPS = 2  # after the inspected ones: any loop variable has been set anew
PATIENCE_SECONDS = 3.0  # with the baseline of a script whose steps take long
FEWEST_BASELINE = 2
ENOUGH_UNDISTURBED = 8  # steps, for a median and its spread


class Scope:
    """Looks at one step at a time."""

    def __init__(
        self,
        options: Options,
        phase: Callable[[], str] = lambda: "",
        forensics: Forensics | None = None,
        done: int = 0,
    ) -> None:
        self._folder = Path(options.folder)
        self._warmup = max(done, options.warmup)
        self._first = self._warmup + options.baseline
        self._inspected = options.inspect
        self._begun = time.monotonic()  # of the baseline
        self._trace = self._folder / f"trace-{os.getpid()}.json.gz" if options.trace else None
        self._inspector: Inspector | None = None
        self._before: Inspector | None = None  # the inspected step before this one
        self._sampler: Sampler | None = None
        self._samples = self._sampled = 0
        self._timeline: Timeline | None = None
        self.timed = not options.inspect  # whether there was a timeline, or none is wanted
        self._profiled = -1  # steps done when a profiler last ended; the next step has none
        self._sync_lines: list[Place] = []
        self.forensics = forensics or Forensics()
        self._trail: Trail | None = None
        self.rests_until = 0 if self._inspected else sys.maxsize  # steps; nothing is wanted before
        self.phase = phase  # of the step, as the recorder sees it

    @property
    def active(self) -> bool:
        """Whether the current step is being looked at."""
        return (self._inspector or self._sampler or self._timeline) is not None

    @property
    def profiles(self) -> bool:
        """Whether a profiler of ours runs."""
        return bool(self._timeline or (self._inspector and self._inspector.profiled))

    def has_seen_enough(self, done: int) -> bool:
        """Whether all was looked at that is planned, and enough steps were left alone beside it."""
        if not self._inspected or self.active or self._trail or (can_begin() and not self.timed):
            return False
        undisturbed = done - self._warmup - self._inspected - self._sampled
        return self._is_sampled and done > self._last and undisturbed >= ENOUGH_UNDISTURBED

    def wants(self, done: int) -> bool:
        """Whether the step after ``done`` finished ones should be looked at."""
        if not self._inspected or self._timeline:
            return False
        self._hasten(done)
        if self._is_inspected(done) or (done >= self._first and self._is_measured(done)):
            return True
        if self._is_sampled and not self._trail:
            self.rests_until = sys.maxsize
        return False

    def _hasten(self, done: int) -> None:
        """End the baseline early where steps take long, unless other ranks would not know."""
        if done <= self._warmup:
            self._begun = time.monotonic()
        elif (
            done >= self._warmup + FEWEST_BASELINE
            and time.monotonic() - self._begun > PATIENCE_SECONDS
            and "LOCAL_RANK" not in os.environ
        ):
            self._first = min(self._first, done)

    @property
    def _last(self) -> int:
        """How many steps are done when the last inspected one is."""
        return self._first + self._inspected

    def _is_inspected(self, done: int) -> bool:
        planned = self._first <= done < self._last
        return planned or self.forensics.wants_inspection

    def _is_measured(self, done: int) -> bool:
        if self._is_timed(done):
            return True
        return not self._is_sampled and (done - self._first - self._inspected) % 2 == 0

    @property
    def _is_sampled(self) -> bool:
        """Whether no further step is."""
        return self._samples >= ENOUGH_SAMPLES or self._sampled >= MOST_SAMPLED

    def _is_timed(self, done: int) -> bool:
        return not self.timed and done > self._profiled and can_begin()

    def step_begins(self, done: int, thread: int, optimizers: list[Any]) -> None:
        """Look at the step that begins now."""
        if self._is_inspected(done):
            profiled = done >= self._last - 1 and done > self._profiled
            trace = self._trace if done == self._last - 1 else None
            self._inspector = Inspector(done, profiled, trace, self._before)
            self._inspector.start(optimizers, self.phase)
        elif self._is_timed(done):
            self._timeline = attempt(started)
            self.timed = True
        else:
            self._sampler = Sampler(thread, lambda: self.phase() == "wait")
            self._sampler.start()

    def step_ended(self, done: int) -> Iterator[dict[str, Any]]:
        """What was seen in the step that ends now, as lines for the recording."""
        if self._inspector:
            inspector, self._inspector = self._inspector, None
            yield inspector.stop()
            self._profiled = done if inspector.profiled else self._profiled
            self._before = inspector if done < self._last else None
            planned = done <= self._last  # a further one comes too late for it
            self._trail = self._trail or (inspector.trail if planned else None)
            self._sync_lines = inspector.sync_lines or self._sync_lines
            yield from self.forensics.note(last=True)
        if self._sampler:
            sampler, self._sampler = self._sampler, None
            lines = sampler.stop()
            self._sampled += 1
            self._samples += sum(row[-1] for row in lines)
            yield {"sampled": done - 1, "lines": lines}
        if self._timeline and self._timeline.step_ends():
            timeline, self._timeline = self._timeline, None
            self._profiled = done
            yield attempt(timeline.stop, self._sync_lines, otherwise={})
        if self._trail and not self._timeline and done >= self._last + LATER_STEPS:
            trail, self._trail = self._trail, None
            yield {"kept": attempt(kept, trail, sys._getframe(), otherwise=[])}

    def backward_begins(self, root: Any, loss: Any, done: int) -> Iterable[dict[str, Any]]:
        """A backward pass begins after ``done`` finished steps; its loss may not be finite."""
        if self._inspector is None and self.forensics.is_usual(loss):
            return ()  # as nearly always, so this is quick
        return self._looked_into(root, loss, done)

    def _looked_into(self, root: Any, loss: Any, done: int) -> Iterator[dict[str, Any]]:
        inspector, forensics = self._inspector, self.forensics
        if inspector and inspector.watch:
            attempt(forensics.learn, root, inspector.watch.flow)
        attempt(forensics.backward_begins, root, loss, done + 1, sys._getframe())
        self.rests_until = 0
        yield from forensics.note()

    def stop(self) -> None:
        """Look no more at the current step: the script ends, or its steps are others.

        A thread that still samples, or a profiler, would be caught in the interpreter's fall.
        """
        if self._sampler:
            self._sampler.stop()
        if self._timeline:
            attempt(self._timeline.cancel)
        if self._inspector:
            attempt(self._inspector.stop)
        self._inspector = self._sampler = self._timeline = None

    def finish(self) -> Iterator[dict[str, Any]]:
        """The script ends. What is known only now, as lines for the recording."""
        self.stop()
        yield from self.forensics.note(last=True)
        if rows := attempt(read_workers, self._folder):
            yield {"sampled": "workers", "lines": rows}
