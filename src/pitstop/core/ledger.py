"""Ledger: where each millisecond of a step went, from the hardware's floor up to the whole step."""

from dataclasses import dataclass
from typing import Literal

from pitstop.core.evidence import NOWHERE, Line

Cause = Literal[
    "data",  # the device is idle: the script waits for a batch
    "sync",  # idle while the queue refills after Python waited for the device
    "transfer",  # idle while bytes go between host and device
    "launch",  # idle between kernels that are too short for the rate they are launched at
    "core",  # idle while the script is ready to run, and other programs have the cores
    "python",  # idle while the script runs Python, or other code that is no operation of torch
    "idle",  # idle, and nothing tells why
    "unused",  # busy with what nothing depends on, or what is multiplied by zero
    "repeated",  # busy with what calls 2 to n of a module pay again, and one batched call would not
    "layout",  # busy turning channels-first into channels-last or back
    "copy",  # busy copying
    "optimizer",  # busy in the optimizer
    "start",  # busy starting operations that have next to nothing to do; on a CPU only
    "above",  # busy longer than bytes and FLOPs need
    "precision",  # busy longer than the same work takes in the device's fastest precision
    "floor",  # the least time that this work takes on this device
    "unmeasured",  # busy, but nobody counted its bytes and FLOPs
    "unseen",  # busy or idle: no step was looked at, or none with the times of its kernels
]
IDLE: tuple[Cause, ...] = ("data", "sync", "transfer", "launch", "core", "python", "idle")
BUSY: tuple[Cause, ...] = (
    "unused",
    "repeated",
    "layout",
    "copy",
    "optimizer",
    "start",
    "above",
    "precision",
    "floor",
    "unmeasured",
)
WAITS: tuple[Cause, ...] = ("core", "data")  # in these the script's thread does no work

NEARLY_ALL = 0.8  # of the busy time: a line that tells nothing about where it goes


@dataclass(frozen=True, slots=True)
class Row:
    """A part of the step with one cause. All rows of a ledger add up to its step."""

    cause: Cause
    ms: float
    what: str = ""  # the operation, as people say it: "native_group_norm"
    where: Line = NOWHERE
    calls: int = 0
    module: str = ""  # that ran it, by its path with numbers as stars: "up_blocks.*.resnets.*"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The median undisturbed step, split without rest; dearest rows first within a cause."""

    step_ms: float
    device: str  # "cuda" or "cpu": what is busy or idle; on the CPU the main thread in torch
    rows: tuple[Row, ...] = ()
    floor_known: bool = True  # false where nothing says what the device's least time is

    def chosen(self, *causes: Cause, where: Line | None = None) -> tuple[Row, ...]:
        """The rows of these causes, of all if none is named, at one line or anywhere."""
        return tuple(
            row
            for row in self.rows
            if (not causes or row.cause in causes) and (where is None or row.where == where)
        )

    def total(self, *causes: Cause, where: Line | None = None) -> float:
        """Milliseconds of these rows."""
        return sum(row.ms for row in self.chosen(*causes, where=where))

    def share(self, ms: float) -> float:
        """A number of milliseconds as a share of the step, never above the whole."""
        return min(1.0, max(0.0, ms / self.step_ms)) if self.step_ms else 0.0

    def with_waits(self, ms: float) -> float:
        """Milliseconds of work, and what the thread waits for a core meanwhile.

        On a machine that others use each part of the work has its share of those waits. On a GPU
        only the thread that launches waits, and what it launches does not.
        """
        on_core_ms = self.step_ms - self.total(*WAITS)
        if self.device != "cpu" or on_core_ms <= 0:
            return ms
        return ms * (1 + self.total("core") / on_core_ms)

    def at_stake(self, ms: float) -> float:
        """The share of the step that goes with so much work: with it go its waits for a core."""
        return self.share(self.with_waits(ms))

    @property
    def lies_behind_one_line(self) -> bool:
        """Whether nearly all work has one line of the user's: the one that calls the model."""
        rows = [row for row in self.rows if row.cause in BUSY and row.where.path]
        at: dict[Line, float] = {}
        for row in rows:
            at[row.where] = at.get(row.where, 0.0) + row.ms
        return bool(at) and max(at.values()) >= NEARLY_ALL * sum(at.values())

    @property
    def floor_ms(self) -> float | None:
        """What the hardware needs for this step at its best."""
        return self.total("floor") if self.floor_known else None
