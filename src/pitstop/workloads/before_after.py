"""Before and after: one system as found, tuned and fast, measured side by side."""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from pitstop.compare import pairs
from pitstop.core.comparison import Comparison
from pitstop.workloads import bench, edits, forms
from pitstop.workloads.forms import AS_FOUND, FAST, Form, Size
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
    tuned: Path | None = None
    options: tuple[str, ...] = ()


def measure(name: str, asked: Asked, command: str, told: Told = lambda _: None) -> BenchResult:
    """Everything that was asked about one system."""
    settings = forms.settings(name)
    size = settings.small if asked.small else settings.full
    every = forms.forms(name, asked.tuned)
    found = _side_by_side(every, size, asked, told)
    gains = _gains(name, found, size, asked, told) if asked.waterfall else ()
    return BenchResult(
        system=name,
        size="small" if asked.small else "full",
        machine=machine(any(each.gpu_bytes for each in found)),
        torch=_of_torch("torch.__version__"),
        commit=commit(),
        date=datetime.now(UTC).date().isoformat(),
        command=command,
        note=size.note,
        forms=tuple(found),
        gains=gains,
    )


def _side_by_side(every: Sequence[Form], size: Size, asked: Asked, told: Told) -> list[Measured]:
    """Some forms of one system in turns; the first is what the others are compared with."""
    options = (*size.options, "--steps", str(asked.steps), *asked.options)
    with tempfile.TemporaryDirectory(prefix="pitstop-bench-") as folder:
        environment = forms.environment(os.environ, size)
        with started(every, options, environment, Path(folder)) as lanes:
            for lane in lanes:
                told(f"{lane.form.system}, {lane.form.name}: first steps")
                lane.warm_up()
            told(f"{lanes[0].form.system}: {len(lanes)} forms in turns")
            _turns(lanes, asked)
            if asked.to_the_end:
                for lane in lanes:
                    told(f"{lane.form.system}, {lane.form.name}: the rest of its steps")
                    lane.to_the_end()
            first = lanes[0]
            return [_measured(lane, first, size.batch) for lane in lanes]


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


def _gains(
    name: str, found: Sequence[Measured], size: Size, asked: Asked, told: Told
) -> tuple[Gain, ...]:
    """Each edit alone and in sum, some forms at a time beside the system as found."""
    every = edits.load(name)
    steps: dict[str, Comparison] = {}
    first = Form(AS_FOUND, name, ("slow",))
    short = replace(asked, to_the_end=False)
    for some in _parts(forms.waterfall(name), asked.beside):
        for each in _side_by_side([first, *some], size, short, told)[1:]:
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


def _parts(every: Sequence[Form], size: int) -> Iterator[Sequence[Form]]:
    for start in range(0, len(every), size):
        yield every[start : start + size]


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
