"""Switches: the changes of a bench, on and off between two steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

from pitstop.tune.change import find_change
from pitstop.tune.inside.script import Script
from pitstop.tune.plan import Wanted


class Switches:
    """Changes that are there from the start, and changes that are asked for by number."""

    def __init__(
        self,
        fixed: tuple[Wanted, ...],
        changes: tuple[Wanted, ...],
        build: Callable[[Wanted], Script],
        rehearses: Callable[[], bool],
    ) -> None:
        self._fixed = [build(each) for each in fixed]
        self._scripts = [build(each) for each in changes]
        for script in (*self._fixed, *self._scripts):
            script.toggled = script in self._scripts
            script.on = not script.toggled
            script.rehearses = rehearses
            script.attempt(partial(find_change(script.name).apply, script))

    def step_ended(self) -> None:
        """A step is over, for all that wait for that."""
        for script in self._scripts:
            script.step_ended()

    def turn(self, on: tuple[int, ...]) -> None:
        """Switch on what is wanted and all others off, the last first."""
        for number in reversed(range(len(self._scripts))):
            if number not in on:
                self._switch(number, False)
        for number in on:
            self._switch(number, True)

    def _switch(self, number: int, on: bool) -> None:
        script = self._scripts[number]
        script.attempt(partial(script.turn, on))

    def left(self, on: tuple[int, ...]) -> set[int]:
        """Modules whose buffers stay as they are where these are on, as was said."""
        return {each for number in on for each in self._scripts[number].left}

    def spares(self, on: tuple[int, ...]) -> bool:
        """Whether models are meant to be called less often where these are on."""
        return any(self._scripts[number].spares_calls for number in on)

    def outcomes(self) -> tuple[Any, ...]:
        """What has become of each so far."""
        return tuple(script.outcome() for script in (*self._scripts, *self._fixed))

    def close(self) -> None:
        """Switch all off."""
        for script in (*self._scripts, *self._fixed):
            script.turn(False)
