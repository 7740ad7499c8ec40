"""Checked: what every room of the tuner says about runs and their changes."""

from dataclasses import dataclass

from pitstop.core.trial import Verdict
from pitstop.tune.plan import Wanted

Changes = tuple[Wanted, ...]


class RunError(Exception):
    """A run that came to nothing, and what that means for the change that was tried."""

    def __init__(
        self, verdict: Verdict, note: str, hasty: bool = False, below: tuple[str, ...] = ()
    ) -> None:
        super().__init__(note)
        self.verdict: Verdict = verdict
        self.note = note
        self.hasty = hasty  # with a larger budget it might have come to something
        self.below = below  # the last words of the script


@dataclass(frozen=True, slots=True)
class Checked:
    """A fresh run with some changes, its numbers held against those of the untouched script."""

    refused: Verdict | None = None  # null: it ran, and its numbers hold
    note: str = ""
    step_ms: float | None = None
    peak_bytes: int | None = None
    drift: float | None = None  # largest relative error
    tolerance: float | None = None  # what rounding alone would do
    quantity: str = ""  # what was off, where that is a number of a step
    step: int | None = None  # from 1


def label(wanted: Wanted) -> str:
    """A change as people read it: ``loader workers=2``; an option ``_calls`` is not for them."""
    shown = {key: value for key, value in wanted.options.items() if key[:1] != "_"}
    return " ".join([wanted.name, *(f"{key}={value}" for key, value in shown.items())])
