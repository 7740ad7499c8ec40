"""Before and after: one system as found, tuned and fast, measured side by side."""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from pitstop.compare import pairs
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.workloads import bench, edits, forms
from pitstop.workloads.forms import AS_FOUND, FAST, Form
from pitstop.workloads.lanes import WARMUP, Lane, rounds, started
from pitstop.workloads.results import BenchResult, Gain, Measured, Quality

TURN_S = 0.4  # a turn has as many steps as fit into it, one at least
CLEAR = 0.1  # of the step: a narrower interval settles what a table says

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a bench is to do."""

    small: bool = False
    steps: int = 30
    pairs: int = pairs.LOOKS[-1]
    to_the_end: bool = True  # then quality is known
    waterfall: bool = False
    beside: int = 1  # forms that are there at once, besides the system as found
    at_once: bool = False  # start all systems before the first is measured
    tuned: Path | None = None
    options: tuple[str, ...] = ()


def measure(names: Sequence[str], asked: Asked, command: str, told: Told) -> Iterator[BenchResult]:
    """One system after the other. One that fails says why and costs itself only."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pitstop-bench-") as top, ExitStack() as stack:
        systems = [_System(name, asked, Path(top), told) for name in names]
        if asked.at_once:
            for each in systems:
                stack.enter_context(each)
        for each in systems:
            try:
                with nullcontext() if asked.at_once else each:
                    yield each.result(command)
            except PitstopError as error:
                failed.append(f"{each.name}: {error}")
            finally:
                each.end()
    if failed:
        raise PitstopError(f"not measured: {'; '.join(failed)}")


class _System:
    """The forms of one system, which are there from when it is entered until it ends."""

    def __init__(self, name: str, asked: Asked, folder: Path, told: Told) -> None:
        settings = forms.settings(name)
        self.name, self.asked, self.folder, self.told = name, asked, folder, told
        self.size = settings.small if asked.small else settings.full
        self.lanes: list[Lane] = []
        self.stack = ExitStack()

    def __enter__(self) -> "_System":
        self.start(forms.forms(self.name, self.asked.tuned))
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, every: Sequence[Form]) -> None:
        """Start these forms, instead of those before."""
        self.end()
        options = (*self.size.options, "--steps", str(self.asked.steps), *self.asked.options)
        environment = forms.environment(os.environ, self.size)
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix=self.name))
        self.lanes = self.stack.enter_context(started(every, options, environment, folder))

    def end(self) -> None:
        """End all forms."""
        self.stack.close()

    def result(self, command: str) -> BenchResult:
        """Everything that was asked."""
        found = self.side_by_side(self.asked.to_the_end)
        gains = self.gains(found) if self.asked.waterfall else ()
        return BenchResult(
            system=self.name,
            size="small" if self.asked.small else "full",
            machine=machine(any(each.gpu_bytes for each in found)),
            torch=_of_torch("torch.__version__"),
            commit=commit(),
            date=datetime.now(UTC).date().isoformat(),
            command=command,
            note=self.size.note,
            forms=tuple(found),
            gains=gains,
        )

    def side_by_side(self, to_the_end: bool) -> list[Measured]:
        """The forms in turns; the first is what the others are compared with."""
        for lane in self.lanes:
            self.told(f"{self.name}, {lane.form.name}: first steps")
            lane.warm_up()
        self.told(f"{self.name}: {len(self.lanes)} forms in turns")
        _turns(self.lanes, self.asked)
        if to_the_end:
            for lane in self.lanes:
                self.told(f"{self.name}, {lane.form.name}: the rest of its steps")
                lane.to_the_end()
        return [_measured(lane, self.lanes[0], self.size.batch) for lane in self.lanes]

    def gains(self, found: Sequence[Measured]) -> tuple[Gain, ...]:
        """Each edit alone and in sum, some forms at a time beside the system as found."""
        every = edits.load(self.name)
        steps: dict[str, Comparison] = {}
        as_found, waterfall = Form(AS_FOUND, self.name, ("slow",)), forms.waterfall(self.name)
        for first in range(0, len(waterfall), self.asked.beside):
            self.start([as_found, *waterfall[first : first + self.asked.beside]])
            for each in self.side_by_side(to_the_end=False)[1:]:
                if each.step:
                    steps[each.name] = each.step
        whole = next(each.step for each in found if each.name == FAST)
        assert whole
        steps[f"up to: {every[0].name}"] = steps[f"alone: {every[0].name}"]
        steps[f"up to: {every[-1].name}"] = whole
        return tuple(
            Gain(each.name, each.what, steps[f"alone: {each.name}"], steps[f"up to: {each.name}"])
            for each in every
        )


def _turns(lanes: Sequence[Lane], asked: Asked) -> None:
    room = max(1, asked.steps - WARMUP)
    looks = pairs.looks_within(min(asked.pairs, room))
    step = lanes[0].steps[-1] if lanes[0].steps else TURN_S
    steps = max(1, min(int(TURN_S / step), room // looks[-1]))

    def enough() -> bool:
        return all(_is_clear(compared(lanes[0], lane)) for lane in lanes[1:])

    rounds(lanes, steps, looks, enough)


def _is_clear(found: Comparison) -> bool:
    return bool(found.low and found.high and found.high - found.low < CLEAR)


def compared(first: Lane, lane: Lane) -> Comparison:
    """The step of one form against that of another, turn by turn."""
    turns = min(len(first.turns), len(lane.turns))
    before, after = ([1e3 * each for each in it.turns[:turns]] for it in (first, lane))
    return pairs.verdict(before, after, pairs.noise(before, after))


def _measured(lane: Lane, first: Lane, batch: int) -> Measured:
    steps = lane.steps
    step_s = median(lane.turns)
    low, _, high = quantiles(steps, n=4, method="inclusive") if len(steps) > 1 else steps * 3
    return Measured(
        name=lane.form.name,
        step_ms=step_s * 1e3,
        low_ms=low * 1e3,
        high_ms=high * 1e3,
        samples_per_s=batch / step_s,
        wait_ms=median(lane.waits) * 1e3,
        gpu_bytes=lane.gpu_bytes,
        host_bytes=lane.host_bytes,
        phases_ms={name: median(each) * 1e3 for name, each in lane.phases.items()},
        quality=_quality(lane) if lane.code == 0 else None,
        step=None if lane is first else compared(first, lane),
    )


def _quality(lane: Lane) -> Quality:
    outcome = bench.parse(lane.form.system, lane.printed())
    return Quality(
        outcome.metric, outcome.quality_before, outcome.quality_after, len(outcome.step_seconds)
    )


def machine(with_gpu: bool) -> str:
    """What it ran on, in a few words."""
    if with_gpu:
        return _of_torch("torch.cuda.get_device_name(0)")
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return f"CPU, {len(os.sched_getaffinity(0))} cores of {platform.machine()}, threads: {threads}"


def _of_torch(what: str) -> str:
    """A fact that torch knows, from a process of its own: this one needs no torch."""
    script = f"import torch; print({what})"
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def commit() -> str:
    """The commit of these sources; empty where they are no checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip()
