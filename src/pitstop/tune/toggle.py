"""Toggle: time a change inside one process, by switching it off and on between blocks of steps.

Blocks alternate as runs do in ``compare.pairs``: off on, on off, off on. Both states are warm by
then: the changes are on in all steps of the warm-up but the last. Where steps are short, the first
after each switch pays for it and is not timed. A GPU works behind the script's back, so its
queue is emptied at both ends of what is timed.

The first step of an epoch, which waits for new workers and may come after a validation, is not
timed either: it would meet one side alone. For what changes how epochs begin, see ``epochs``.

Many short blocks tell more than a few long ones: what drifts slowly cancels in each pair. As soon
as a look at the pairs tells enough, the run may end. Where each of some changes is switched by
itself, every look is followed by the next one's: a script that ends early has told of all of them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import distributed

from pitstop.compare.pairs import LOOKS
from pitstop.tune.looks import pairs_of, tell_enough
from pitstop.tune.plan import BLOCKS, SHORTEST_EPOCH, Block, Toggle, is_on, write


class Blocks:
    """Follows the steps of the script, switches at the borders, and writes down each block."""

    def __init__(
        self,
        toggle: Toggle,
        folder: Path,
        switch: Callable[[bool], None],
        choose: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._toggle = toggle
        self._folder = folder
        self._switch = switch
        self._choose = choose  # which of the changes that is, with all others on
        self._member = 0
        self._open: list[int] = []  # members whose pairs have not told enough, the next one first
        self._blocks: list[Block] = []
        self._number = 0  # of the block that runs
        self._first = 0  # steps that were done before its first timed one
        self._begun: float | None = None  # when that began, later by what is not timed
        self._paused: float | None = None  # when the last step had ended, if this begins an epoch
        self._thread = get_ident()  # what another one reads ahead is no part of a step
        self._done = 0  # steps
        self._ended = _Mark()
        self._last = 0  # steps that were done when an epoch began
        self._epochs: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # likewise, by loader

    def epoch_begins(self, loader: Any) -> None:
        """The step that runs will read the first batch of a loader."""
        if get_ident() != self._thread:
            return
        since = self._done - self._epochs.get(loader, self._last)  # some are built for each epoch
        self._last = self._epochs[loader] = self._done
        usual = since < SHORTEST_EPOCH or self._toggle.epochs
        if self._begun is not None and self._paused is None and not usual and is_alone():
            self._paused = _now() - self._ended.since_s()

    def step_ended(self, done: int) -> bool:
        """So many steps are done; whether the blocks tell enough."""
        toggle, enough = self._toggle, False
        self._done = done
        if self._begun is not None and self._paused is not None:
            self._begun += _now() - self._paused
            self._paused = None
            self._first += 1  # one more in its place
        if done == toggle.warmup - 1:
            self._switch(False)
        if done == toggle.warmup:  # once more where the steps before were taken for others
            self._blocks.clear()
            write(self._folder, BLOCKS, self._blocks)
            self._open = list(range(toggle.members))
            self._begin_member(0, done)
        elif self._begun is not None and done == self._first + toggle.steps:
            self._finish(self._begun)
            enough = self._go_on(done)
        if done == self._first:
            self._begun = _now()
        if self._begun is not None:
            self._ended = _Mark()
        return enough

    def _go_on(self, done: int) -> bool:
        """Begin the next block; whether all blocks together tell enough."""
        number, odd = divmod(len(self._own()), 2)
        if self._open and not odd and (number in LOOKS or number >= self._toggle.pairs):
            self._open += [] if self._told(number) else self._open[:1]
            del self._open[0]
        if self._open and self._open[0] != self._member:
            self._begin_member(self._open[0], done + 1)  # a step without it comes first
        else:
            self._begin(self._number + 1, done)
        return not self._open

    def _begin_member(self, member: int, done: int) -> None:
        self._member = member
        self._choose(member)
        self._begin(len(self._own()), done)

    def _own(self) -> list[Block]:
        return [each for each in self._blocks if each.member == self._member]

    def _begin(self, number: int, done: int) -> None:
        self._number, self._first = number, done + self._toggle.lead_of(number)
        self._begun = self._paused = None
        self._switch(is_on(number))

    def _finish(self, begun: float) -> None:
        steps = self._toggle.steps
        ms = (_now() - begun) * 1000 / steps
        self._blocks.append(Block(is_on(self._number), self._first, steps, ms, self._member))
        write(self._folder, BLOCKS, self._blocks)

    def _told(self, number: int) -> bool:
        looks = self._toggle.looks and is_alone()
        return number >= self._toggle.pairs or (looks and tell_enough(pairs_of(self._own())))


class _Mark:
    """A moment of the run; where there is a GPU, the one at which it has done all work so far."""

    def __init__(self) -> None:
        self._at = perf_counter()
        self._event = _event() if torch.cuda.is_initialized() else None

    def since_s(self) -> float:
        """Seconds until now, with an empty queue."""
        if self._event is None:
            return perf_counter() - self._at
        now = _event()
        now.synchronize()
        return float(self._event.elapsed_time(now)) / 1000


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def is_alone() -> bool:
    """Whether no other process waits for this one: each would look at times of its own."""
    joined = distributed.is_available() and distributed.is_initialized()
    launched = os.environ.get("WORLD_SIZE", "") not in {"", "1"}
    return not launched and not (joined and distributed.get_world_size() > 1)


def empty_queue() -> None:
    """Wait until the GPU has done all that it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _now() -> float:
    empty_queue()
    return perf_counter()
