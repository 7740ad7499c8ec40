"""Notes: what happens in steps that nobody looks at, accounted for a little later.

Each time that the script calls, its own data has driven our code out of the caches, and it runs
ten times as long as right after itself. So as little as possible runs then: a note says when
something happened and what. A few times a second the recorder accounts for all notes at once, by
the methods that it else calls as things happen; then it follows one step as it happens.

Only the plain sequence of a training step is noted. Anything else ends the notes first.
"""

from collections.abc import Callable
from math import isfinite
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from pitstop.profile.hooks.patch import Given, root_of
from pitstop.profile.read.clock import WAIT

if TYPE_CHECKING:
    from pitstop.profile.record.recorder import Recorder

MOST_NS = 250_000_000  # that notes reach back, when a step ends; then one step is followed
MOST_STEPS = 120
MOST_NOTES = 2 * MOST_STEPS  # a step has two at least
FOLLOWED_STEPS = 8  # after something that could not be noted


class Notes:
    """Stands between the hooks and the recorder, which hears of things at once unless ``taken``."""

    def __init__(self, recorder: "Recorder") -> None:
        self.taken = False
        self.not_before = 0  # steps: something in the latest ones could not be noted
        self._recorder = recorder
        self._within = False  # whether the last note begins a phase
        self._notes: list[tuple[int, Callable[[Any], object], Any]] = []

    def begin_wait(self, given: Given) -> bool:
        """The script asks for a batch."""
        recorder = self._recorder
        if self.taken and get_ident() == recorder.thread:
            if not self._within and recorder.loaders.asked() is given[0][0]:
                self._within = True
                self._note(recorder.clock.enter, WAIT)
                return True
            self.end()
        return recorder.begin_wait(given)

    def fetched(self, given: Given, batch: Any) -> None:
        """The batch is there."""
        if self.taken:
            self._within = False
            self._note(self._recorder.count_batch)
        else:
            self._recorder.fetched(given, batch)

    def begin_backward(self, given: Given) -> bool:
        """A backward pass begins; a loss that is not finite is looked into right now."""
        recorder = self._recorder
        if self.taken and get_ident() == recorder.thread:
            if not self._within:
                loss = recorder.keep(root_of(given))
                if loss is None or (type(loss) is float and isfinite(loss)):
                    self._within = True
                    self._note(recorder.count_backward, loss)
                    return True
            self.end()
        return recorder.begin_backward(given)

    def end_backward(self, *_: Any) -> None:
        """The backward pass is over."""
        if self.taken:
            self._within = False
            self._note(self._recorder.end_backward)
        else:
            self._recorder.end_backward()

    def clipped(self, norm: Any) -> None:
        """The norm of the gradients was computed, to clip them."""
        recorder = self._recorder
        known = recorder.keep(norm)
        if self.taken:
            self._note(recorder.clipped, known)
        else:
            recorder.clipped(known)

    def begin_step(self, optimizer: Any) -> None:
        """An optimizer begins to step."""
        recorder = self._recorder
        if get_ident() != recorder.thread:
            return
        if self.taken:
            if not self._within:
                self._within = True
                self._note(recorder.begin_step, id(optimizer))
                return
            self.end()
        recorder.begin_step(id(optimizer))

    def end_step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        recorder = self._recorder
        if get_ident() != recorder.thread:
            return
        if self.taken:
            number = recorder.numbers.of(optimizer)
            if number is not None:
                self._within = False
                self._note(recorder.count_step, (id(optimizer), number))
                if self._notes and perf_counter_ns() - self._notes[0][0] > MOST_NS:
                    self.account()
                return
            self.end()
        recorder.end_step(optimizer)
        self.taken = recorder.allows_notes()

    def _note(self, happened: Callable[[Any], object], value: Any = None) -> None:
        """Note that something happens now; a signal's handler may just have ended the notes."""
        self._notes.append((perf_counter_ns(), happened, value))
        if not self.taken or len(self._notes) >= MOST_NOTES:
            self.account()

    def end(self) -> None:
        """Something happens that is not noted; it may happen again in the next steps."""
        self.account()
        self.not_before = self._recorder.steps.done + FOLLOWED_STEPS

    def account(self) -> None:
        """Let the recorder hear of all that was noted; the time this takes belongs to no step.

        Where a signal interrupts it, the rest comes first: those steps are over.
        """
        self.taken = self._within = False
        clock, begun_ns = self._recorder.clock, perf_counter_ns()
        notes = self._notes.copy()
        self._notes.clear()  # in place: a note that is being made goes there
        interrupted: BaseException | None = None
        try:
            for at_ns, happened, value in notes:
                clock.at_us = at_ns // 1000
                try:
                    happened(value)
                except (KeyboardInterrupt, SystemExit) as error:
                    interrupted = error
        finally:
            clock.at_us = 0
        clock.cursor_us += (perf_counter_ns() - begun_ns) // 1000
        self._recorder.accounted()
        if interrupted:
            raise interrupted
