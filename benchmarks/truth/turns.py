"""Turns: two programs at once, of which one runs and the other is stopped, by turns.

Both are started once. Then each has a second or two, AB BA AB BA, so that what disturbs the machine
disturbs both. A step counts where it lies in a turn as a whole. What it waited for a core is left
out: the programs run on one thread, and others use the machine. What else disturbs a step only adds
to it, so the fastest steps of a turn tell what the work takes; where a change is about the wait for
data, which comes in bursts, all of them do.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from pitstop.compare.pairs import Pairs
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Step
from pitstop.profile.read import runs
from pitstop.profile.read.collect import collect
from pitstop.tune.runs.looks import compared

PITSTOP = [sys.executable, "-m", "pitstop"]
WARMUP = 3  # steps of each program before the first turn
SHORTEST_S = 1.0  # of a turn
STEPS = 3  # in a turn at least: the first and the last are cut off
LONGEST_S = 6.0  # of a turn in which there are fewer, since the machine is busy
PAIRS = (12, 16)  # after which we look whether they are enough
ENOUGH = 0.06  # of the step: a narrower interval settles what can be settled here
PATIENCE_S = 300  # for the first steps of both
FASTEST = 10  # one step in so many is faster than the one that counts
LATE_S = 0.005  # between the end of a step and the file that tells it

Window = tuple[float, float]  # a turn's begin and end


@dataclass
class Side:
    """One program that runs in turns."""

    folder: Path
    process: subprocess.Popen[bytes]
    turns: list[Window] = field(default_factory=list)

    def steps(self) -> list[Step]:
        """All that it has recorded so far."""
        with suppress(PitstopError, ValueError):
            return list(collect(runs.find(self.folder, "last"), 0)[0].steps)
        return []

    def until(self, steps: int) -> None:
        """Wait until it has made more steps than this."""
        end = time.monotonic() + PATIENCE_S
        while (made := len(self.steps())) <= steps:
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{self.folder}: only {made} steps: see output.txt there")
            time.sleep(0.2)

    def go(self) -> None:
        """Let it run."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Hold it where it is."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def turn(self, seconds: float) -> None:
        """Let it run for so long."""
        begun, made = time.time(), len(self.steps())
        self.go()
        time.sleep(seconds)
        while len(self.steps()) < made + STEPS and time.time() < begun + LONGEST_S:
            time.sleep(seconds / STEPS)
        self.stop()
        if self.process.poll() is not None:
            raise SystemExit(f"{self.folder}: the program has ended too early")
        self.turns.append((begun, time.time()))

    def typical(self, bursts: bool) -> list[float | None]:
        """The step of each turn, without its wait for a core."""
        (newest,) = runs.find(self.folder, "last").glob("rank0-*.jsonl")
        steps = self.steps()
        started = newest.stat().st_mtime - steps[-1].ended_s - LATE_S
        turns = [(begun - started, end - started) for begun, end in self.turns]
        return [_typical(steps, begun, end, bursts) for begun, end in turns]


def in_turns(command: str, before: Path, after: Path, bursts: bool) -> Comparison:
    """The step after the change against the step before it."""
    with started(command, before) as first, started(command, after) as second:
        for side in (first, second):
            side.until(2 * WARMUP)
        for side in (first, second):
            side.stop()
        return alternate(first, second, SHORTEST_S, bursts)


def alternate(first: Side, second: Side, shortest_s: float, bursts: bool) -> Comparison:
    """Two programs that have been stopped, in turns."""
    for look in PAIRS:
        while len(first.turns) < look:
            for side in (first, second) if len(first.turns) % 2 else (second, first):
                side.turn(shortest_s)
        found = _compared(first, second, bursts)
        if found.low and found.high and found.high - found.low < ENOUGH:
            break
    return found


def _compared(first: Side, second: Side, bursts: bool) -> Comparison:
    pairs = zip(first.typical(bursts), second.typical(bursts), strict=True)
    whole = [(a, b) for a, b in pairs if a and b]
    return compared(Pairs(tuple(a for a, _ in whole), tuple(b for _, b in whole)))


def _typical(steps: Sequence[Step], begin: float, end: float, bursts: bool) -> float | None:
    inside = [each for each in steps if each.ended_s < end]
    inside = [each for each in inside if each.ended_s - each.total_ms / 1e3 > begin]
    taken = sorted(map(_on_core_ms, inside))
    if bursts:
        return fmean(taken) if taken else None
    return taken[len(taken) // FASTEST] if taken else None


def _on_core_ms(step: Step) -> float:
    """A step without the time in which it waited for a core, unless it waited for data then."""
    return step.total_ms - (step.core_wait_ms or 0.0) * (1 - step.data_wait_ms / step.total_ms)


@contextmanager
def started(command: str, folder: Path, *options: str) -> Iterator[Side]:
    """A program in a group of processes of its own, which ends with us."""
    words = [*PITSTOP, "profile", *(options or ("--inspect", "0")), *shlex.split(command)]
    with (folder / "output.txt").open("wb") as told:
        process = subprocess.Popen(
            words, cwd=folder, start_new_session=True, env=alone(), stdout=told, stderr=told
        )
    try:
        yield Side(folder, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def alone() -> dict[str, str]:
    """An environment in which torch has one thread: its time on a core is then its own."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # torchrun
    quiet = {"MPLBACKEND": "Agg", "WANDB_MODE": "disabled"}
    return os.environ | {"OMP_NUM_THREADS": "1", "PATH": tools} | quiet
