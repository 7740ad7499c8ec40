"""Findings: what a rule saw, where, what it costs, and how to fix it."""

from dataclasses import dataclass
from typing import Literal

from pitstop.core.ledger import Row

Severity = Literal["error", "warning", "note"]  # error: wrong or cannot work; warning: slow
Confidence = Literal["measured", "certain", "suspected"]  # measured: a run showed the cost
Per = Literal["step", "epoch", "validation", "start"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text. Lines and columns count from 1, in a notebook in each cell."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int = 0  # of a notebook, from 1 among all its cells; 0: no notebook

    @property
    def place(self) -> str:
        """``train.py:3``, or ``play.ipynb:cell 4:3``."""
        return (
            f"{self.path}:cell {self.cell}:{self.line}" if self.cell else f"{self.path}:{self.line}"
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``text[start:end]`` with ``new``. Offsets are characters, not bytes."""

    start: int
    end: int
    new: str
    path: str = ""  # empty: the file that the finding is in


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits applied together or not at all. ``safe``: proved from the code to change no result."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """One number that backs a finding, with its unit spelled out."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of numbers to be drawn beside a finding."""

    name: str
    points: tuple[tuple[float, float | None], ...]  # step and value; null: not finite


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth changing. ``saving`` is the share of step time at stake, 0 to 1."""

    message: str = ""  # empty: the rule's own summary will do
    span: Span | None = None
    item: str = ""  # the part of the machine or dataset it is about, where there is no span
    cure: str = ""  # a command to type or a setting to change, where there is no source fix
    severity: Severity = "warning"
    confidence: Confidence = "certain"
    metrics: tuple[Metric, ...] = ()
    saving: float | None = None
    claims: tuple[Row, ...] = ()  # of the ledger: where the saving of a step comes from
    saved_bytes: int | None = None
    per: Per = "step"
    excerpt: tuple[str, ...] = ()  # lines of source around the span, numbered
    fix: Fix | None = None
    changes: tuple[str, ...] = ()  # names of tuner changes worth trying
    curves: tuple[Curve, ...] = ()  # what it was seen in, over the steps of a log
    mark: float | None = None  # the step at which it happened
    code: str = ""  # code and rule are stamped by the rule that yields the finding
    rule: str = ""
