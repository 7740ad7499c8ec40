"""Report: everything one command learned. Every renderer takes this and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pitstop.core.comparison import Comparison, Parted
from pitstop.core.evidence import Evidence
from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger
from pitstop.core.machine import Machine
from pitstop.core.trial import Trial

Status = Literal["ok", "warn", "FAIL", "n/a"]
Proved = Literal["", "better", "worse", "same", "drifted", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Check:
    """One inspected item of a machine or dataset, with its value and, if not ok, its cure."""

    status: Status
    item: str
    value: str
    cure: str = ""
    code: str = ""  # of the finding behind a warn or FAIL


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under titles; the first column names the row, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Findings and trials, already ranked; a renderer sorts and drops nothing."""

    command: str  # "doctor", "scan", ...
    verdict: str  # one line: the answer
    why: str = ""  # one line: the reason
    next: str = ""  # one line: what to type now
    typed: str = ""  # the script and its arguments, to be typed behind another command
    where: str = ""  # file:line or the item of the machine, when there is one
    gain: str = ""  # one line: what all findings together can save at most
    machine: Machine | None = None
    checks: tuple[Check, ...] = ()
    ledger: Ledger | None = None  # where the median step went
    after: Ledger | None = None  # the same with all changes that were kept
    tables: tuple[Table, ...] = ()
    findings: tuple[Finding, ...] = ()
    trials: tuple[Trial, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    proved: Proved = ""  # of an edit against its base
    parted: Parted | None = None  # where the two compute something else
    notes: tuple[str, ...] = ()  # worth knowing when reading the above
    skipped: tuple[str, ...] = ()  # what was not looked at, and why
    ranks: tuple[Evidence, ...] = ()  # what was recorded, for charts
    docs: Mapping[str, str] = field(default_factory=dict)  # rule code -> documentation
