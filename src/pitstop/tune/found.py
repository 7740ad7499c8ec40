"""Found: what a search was asked for, who hears how it goes, and all that it has come to."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pitstop.compare.quantities import Quantity
from pitstop.core.comparison import Comparison
from pitstop.core.trial import Trial
from pitstop.tune.change import Goal
from pitstop.tune.checked import Changes


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants, and what the machine can hold."""

    goal: Goal = "time"
    limit_bytes: int | None = None  # of the GPU; null without one
    metrics: tuple[Quantity, ...] = ()
    precision: str = "float32"  # what the script computes in by itself, at its coarsest
    epoch: int | None = None  # its steps; null where no loader tells


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What an edit of the source is worth that has been tried, and is not kept."""

    on: Changes
    step: Comparison
    numbers: str  # whether they held, in words
    lost: tuple[str, ...] = ()  # what the script would lose by it beside its numbers

    @property
    def places(self) -> tuple[str, ...]:
        """Where the edit would be: ``loss.py:96``."""
        return tuple(str(each.options.get("at", "")) for each in self.on)


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits of the source in a patch: which ones are proved, and what a person has to do."""

    on: Changes = ()  # those whose patched source computes the same
    said: str = ""  # what came of them, in words; empty where no edit was plain
    by_hand: tuple[str, ...] = ()  # a line for each place that has none


@dataclass(frozen=True, slots=True)
class Found:
    """All that a search has come to so far."""

    null: str = ""  # the untouched script against itself; empty: it did not come to that
    trials: tuple[Trial, ...] = ()
    kept: Changes = ()
    step_ms: tuple[float, float] | None = None  # untouched, and with all that is kept
    proof: tuple[Comparison, ...] = ()  # untouched against all kept; empty: there was none
    broken: str = ""  # what ended a run with all that is kept in the proof
    unproved: str = ""  # what the proof left open
    untried: tuple[str, ...] = ()  # since the budget was spent
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    patched: Edits | None = None  # null: nothing was to be edited
    what_if: WhatIf | None = None  # null: nothing that nobody needs was found, or proved

    def noted(self, text: str) -> "Found":
        """With one line more."""
        return replace(self, notes=(*self.notes, text))


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how the search goes."""

    doing: Callable[[str], None] = lambda _: None
    tried: Callable[[Trial], None] = lambda _: None
    kept: Callable[[Found], None] = lambda _: None  # something was, or is no longer
    say: Callable[[str], None] = lambda _: None


def leading(found: Found, goal: Goal) -> Comparison:
    """The quantity of the proof that answers the question."""
    larger = any(each.name == "batch-size" for each in found.kept)
    wanted = {"time": ["samples" if larger else "step"], "memory": ["gpu-memory", "host-memory"]}
    return next((each for each in found.proof if each.metric in wanted[goal]), found.proof[0])
