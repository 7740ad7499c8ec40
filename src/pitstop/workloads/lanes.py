"""Lanes: forms of a system that are all there at once, of which one runs and the others are held.

All start together and are held at their first steps. Then they take turns, forwards and
backwards, so that what disturbs the machine for a while disturbs all of them, and what drifts
cancels. Each form is compared with the first in the same round.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import psutil

from pitstop.core.errors import PitstopError
from pitstop.workloads.forms import Form

WARMUP = 3  # steps that pay for allocations, autotuning and cold files
POLL_S = 0.002
PATIENCE_S = 900.0  # for a first step
LAST_LINES = 5  # of what a form printed, where it ended badly


@dataclass
class Lane:
    """One form in a group of processes of its own."""

    form: Form
    folder: Path
    process: subprocess.Popen[bytes]
    turns: list[float] = field(default_factory=list)  # seconds of a step, the mean of each turn
    waits: list[float] = field(default_factory=list)  # of these, for data
    steps: list[float] = field(default_factory=list)  # seconds of each step after the warm-up
    phases: dict[str, list[float]] = field(default_factory=dict)
    gpu_bytes: int = 0
    host_bytes: int = 0
    warm: int = 0  # steps so far
    code: int | None = None  # once it has ended
    _read: int = 0  # characters of the record

    def ahead(self) -> list[tuple[str, float, float]]:
        """Let it go on to where it holds next: what it did, its seconds, those it waited."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
        return self.held(time.monotonic() + PATIENCE_S)

    def held(self, until: float) -> list[tuple[str, float, float]]:
        """Wait until it holds still or has ended; what is new in its record."""
        while self.code is None:
            found, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                break
            if found:
                self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
                if self.code:
                    raise PitstopError(f"{self.form.system}, {self.form.name}: {self._last()}")
            elif time.monotonic() > until:
                raise PitstopError(f"{self.form.system}, {self.form.name}: no step in time")
            else:
                time.sleep(POLL_S)
        self.host_bytes = max(self.host_bytes, self._host_bytes())
        return self._news()

    def turn(self, steps: int) -> bool:
        """So many steps with the machine to itself; whether it made them."""
        made: list[tuple[float, float]] = []
        while len(made) < steps and self.code is None:
            for kind, seconds, wait in self.ahead():
                self.warm += kind == "step"
                if kind == "step":
                    made.append((seconds, wait))
                elif kind != "begin":
                    self.phases.setdefault(kind, []).append(seconds)
        if len(made) < steps:
            return False
        self.turns.append(fmean(seconds for seconds, _ in made))
        self.waits.append(fmean(wait for _, wait in made))
        self.steps += [seconds for seconds, _ in made]
        return True

    def warm_up(self) -> None:
        """Its first steps, which count for nothing; all forms do theirs at once up to the first."""
        self.warm += sum(kind == "step" for kind, *_ in self.held(time.monotonic() + PATIENCE_S))
        while self.warm < WARMUP and self.code is None:
            self.turn(1)
        self.turns, self.waits, self.steps = [], [], self.steps[-1:]

    def to_the_end(self) -> list[str]:
        """The rest of its steps; all that it has printed."""
        while self.code is None:
            self.turn(1)
        return self.printed()

    def printed(self) -> list[str]:
        """All lines so far."""
        return (self.folder / "printed").read_text("utf-8", "replace").splitlines()

    def _news(self) -> list[tuple[str, float, float]]:
        record = self.folder / "record"
        text = record.read_text(encoding="utf-8") if record.exists() else ""
        new, self._read = text[self._read :], len(text)
        lines = [json.loads(line) for line in new.splitlines()]
        for line in lines:
            self.gpu_bytes = max(self.gpu_bytes, line["gpu"])
        return [(line["kind"], line["seconds"], line.get("wait", 0.0)) for line in lines]

    def _host_bytes(self) -> int:
        with suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            family = [process, *process.children(recursive=True)]
            return sum(int(each.memory_info().rss) for each in family)
        return 0

    def _last(self) -> str:
        return " | ".join(filter(None, self.printed()[-LAST_LINES:])) or f"exit code {self.code}"


@contextmanager
def started(
    forms: Sequence[Form], options: tuple[str, ...], environment: dict[str, str], folder: Path
) -> Iterator[list[Lane]]:
    """All forms at once, which end with us."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(_lane(form, options, environment, folder / str(number)))
            for number, form in enumerate(forms)
        ]


@contextmanager
def _lane(
    form: Form, options: tuple[str, ...], environment: dict[str, str], folder: Path
) -> Iterator[Lane]:
    folder.mkdir(parents=True)
    words = form.command(folder / "record", (*options, "--out", str(folder / "out")))
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    lane = Lane(form, folder, process)
    try:
        yield lane
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if lane.code is None:
            process.wait()


def rounds(
    lanes: Sequence[Lane], steps: int, looks: Sequence[int], enough: Callable[[], bool]
) -> None:
    """Turns of so many steps for all, until a look says that it is enough, or one has ended."""
    for number in range(looks[-1]):
        for lane in lanes[::-1] if number % 2 else lanes:
            if not lane.turn(steps):
                return
        if number + 1 in looks and enough():
            return
