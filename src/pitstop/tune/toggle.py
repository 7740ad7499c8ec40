"""Toggle: time a change inside one process, by switching it off and on between blocks of steps.

Blocks alternate as runs do in ``compare.pairs``: off on, on off, off on. Both states are warm by
then: the changes are on in all steps of the warm-up but the last. Where steps are short, the first
of each block pays for the switching and is not timed. A GPU works behind the script's back, so its
queue is emptied at both ends of what is timed.
"""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from pitstop.tune.plan import BLOCKS, Block, Toggle, write


def is_on(number: int) -> bool:
    """Whether the change is on in this block, counted from 0: off on, on off, off on ..."""
    return number % 4 in {1, 2}


class Blocks:
    """Follows the steps of the script, switches at the borders, and writes down each block."""

    def __init__(self, toggle: Toggle, folder: Path, switch: Callable[[bool], None]) -> None:
        self._toggle = toggle
        self._folder = folder
        self._switch = switch
        self._blocks: list[Block] = []
        self._begun = 0.0

    def step_ended(self, done: int) -> None:
        """So many steps are done."""
        toggle = self._toggle
        if done == toggle.warmup - 1:
            self._switch(False)
        number, place = divmod(done - toggle.warmup, toggle.lead + toggle.steps)
        if number < 0:
            return
        if place == 0:
            self._finish(number, done)
            self._switch(is_on(number))
        if place == toggle.lead:
            self._begun = _now()

    def _finish(self, number: int, done: int) -> None:
        """Write down the block before this one; the first has none."""
        if number == 0:
            self._blocks.clear()  # what was timed while the script's steps were taken for others
            return
        steps = self._toggle.steps
        ms = (_now() - self._begun) * 1000 / steps
        self._blocks.append(Block(is_on(number - 1), done - steps, steps, ms))
        write(self._folder, BLOCKS, self._blocks)


def empty_queue() -> None:
    """Wait until the GPU has done all that it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _now() -> float:
    empty_queue()
    return perf_counter()
