"""Trials: run the script once in a fresh process, with changes, and leave nothing behind.

What the script writes goes to a scratch folder that is wiped afterwards, so every trial starts from
the same files. A trial that crashes, hangs or runs out of memory is a ``TrialRun`` that says so;
its processes, its shared memory and its files are gone in any case.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pitstop.compare.quantities import gpu_peak_bytes
from pitstop.compare.record import Recording, record
from pitstop.core.evidence import Evidence
from pitstop.profile.read.runs import About
from pitstop.profile.start.launch import IsolatedRun
from pitstop.profile.start.options import FIRST, UNKNOWN, StepEnds
from pitstop.tune import plan
from pitstop.tune.guard import readings
from pitstop.tune.guard.readings import Readings
from pitstop.tune.plan import Outcome, Plan
from pitstop.tune.runs.endings import Ending, complaints, ending
from pitstop.tune.runs.machine_lock import my_turn
from pitstop.tune.sandbox import child_processes, folders, refusals
from pitstop.tune.sandbox.copied_tree import Tree
from pitstop.tune.sandbox.sandbox import Sandbox, opened
from pitstop.tune.sandbox.written_files import Written, written

COMPILED = "compiled"  # what inductor compiled, beside the folders of trials, which share it
LINKED_S = 10.0  # more than a linker takes to write a library


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run trials: the same for all that are to be compared."""

    steps: int | None = None  # end the run after so many
    warmup: int = 3
    inspect: int = 0
    headspace: bool = False  # some more steps at the end, with batches from memory
    timeout_s: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)
    in_place: bool = False  # let the script write where it wants to
    lists_writes: bool = False  # tell what it writes; for the first run
    step_ends: StepEnds = UNKNOWN  # by an earlier run
    compiled: Path | None = None  # a folder for that which is to outlive these trials
    tree: Tree | None = None  # a copy of the user's tree, in which the command begins


@dataclass(frozen=True, slots=True)
class TrialRun:
    """One trial, however it ended."""

    recording: Recording
    ending: Ending
    wall_s: float
    outcomes: tuple[Outcome, ...]  # what became of each change
    readings: Readings
    written: Written | None = None  # only where it was asked for

    @property
    def evidence(self) -> Evidence:
        """What was recorded of its first process."""
        return self.recording.evidences[0]

    @property
    def about(self) -> About:
        """What it ran on."""
        return self.recording.about

    @property
    def peak_bytes(self) -> int | None:
        """The most memory in use: of the GPU where there is one, else of the host."""
        each_process = self.recording.evidences
        gpu = [peak for each in each_process if (peak := gpu_peak_bytes(each))]
        memory = [reading for each in each_process for reading in each.memory]
        host = [each.host_bytes for each in memory if each.host_bytes]
        return max(gpu or host, default=None)


def run_trial(
    words: Sequence[str], wanted: Plan, folder: Path, settings: Settings | None = None
) -> TrialRun:
    """Run a command with a plan, recorded in ``folder``, which is emptied; Ctrl-C ends it at once.

    The folder of the plan is set here, and what the settings tell of its steps.
    """
    settings = settings or Settings()
    folder = folder.absolute()
    with place(folder, settings) as here:
        run = _run(words, wanted, folder, settings, here.apart(wanted.seed, settings.timeout_s))
        here.killed = run.ending.exit_code < 0
        may_not = here.refused(run.recording)
        run = replace(run, ending=refusals.explained(run.ending, may_not))
        if settings.lists_writes and not settings.in_place:
            run = replace(run, written=written(here.box, may_not))
        return run


class Place:
    """Where one process of the script runs, and what it finds in its environment."""

    def __init__(self, box: Sandbox, settings: Settings, cache: Path) -> None:
        self.box = box
        self.environment = _environment(box, settings, cache)
        self.wrapper_command = () if settings.in_place else box.wrapper_command
        self.killed = True
        self._folder = settings.tree.begins if settings.tree else None

    def apart(self, seed: int | None, timeout_s: float = math.inf) -> IsolatedRun:
        """How a process that runs here differs from one that the user starts."""
        environment = {**_seeded(seed), **self.environment}
        return IsolatedRun(timeout_s, environment, self.wrapper_command, self._folder)

    def refused(self, recording: Recording) -> tuple[str, ...]:
        """The paths that the kernel did not let it write to, as far as it has complained."""
        if not self.wrapper_command:
            return ()
        return refusals.refused(complaints(recording), self.box.may_write)


@contextmanager
def place(folder: Path, settings: Settings) -> Iterator[Place]:
    """Our turn on this machine, and a place of which nothing is left afterwards."""
    folders.wipe(folder)  # what an interrupted trial left would be read as this one's
    folder.mkdir(parents=True, exist_ok=True)
    cache = (settings.compiled or folder.parent / COMPILED).absolute()  # not the user's own
    killed = True
    try:
        with my_turn(), opened(folder, cache, settings.lists_writes, settings.tree) as box:
            here = Place(box, settings, cache)
            yield here
            killed = here.killed
    finally:
        if killed:
            _drop_halves(cache)


def _run(
    words: Sequence[str],
    wanted: Plan,
    folder: Path,
    settings: Settings,
    apart: IsolatedRun,
) -> TrialRun:
    trains = settings.step_ends[0] == "optimizer"
    asked = replace(wanted, folder=str(folder), steps=settings.steps, trains=trains)
    also = ((plan.BEGIN, asked.to_json()),)
    begun = time.monotonic()
    recording = record(
        *(words, folder, settings.steps, settings.warmup, settings.inspect, also, apart),
        step_ends=settings.step_ends,
        headspace=settings.headspace,
    )
    wall_s = time.monotonic() - begun
    ended = ending(recording, wall_s, settings.timeout_s)
    return TrialRun(
        recording,
        ended,
        wall_s,
        tuple(plan.read_outcomes(folder)),
        readings.read(folder, recording.evidences[0]),
    )


def _environment(box: Sandbox, settings: Settings, cache: Path) -> dict[str, str]:
    ours = {child_processes.VARIABLE: box.tag}
    if settings.tree:
        ours |= settings.tree.environment()
    if not settings.in_place:
        ours |= {**box.environment(), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    elif settings.tree:
        ours[FIRST] = box.only_imports
    return {**ours, **settings.environment}


def _seeded(seed: int | None) -> dict[str, str]:
    """The order of sets of strings is that of a seed, unless the user has said what it is."""
    known = seed is None or "PYTHONHASHSEED" in os.environ
    return {} if known else {"PYTHONHASHSEED": str(seed)}


def _drop_halves(cache: Path) -> None:
    """Delete the libraries of the last seconds: a linker may have been killed as it wrote one.

    It looks whole from its header to its length, inductor takes it for such, and who loads it
    crashes.
    """
    for path in cache.rglob("*.so"):
        if path.stat().st_mtime > time.time() - LINKED_S:
            path.unlink()
