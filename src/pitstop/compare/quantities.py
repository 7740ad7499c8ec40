"""Quantities: the numbers that are read off one run, and which direction of each is better."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, median, quantiles

from pitstop.compare.pairs import Quality
from pitstop.compare.record import Recording
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence

HICCUPS = 0.05  # share of the slowest steps left out of the step time: they are rarely the code's
LOOKS_AT_HOST = 3  # seconds a run must last: earlier samples see a script that still imports
WAIT = "wait"
LOWER_IS_BETTER = ("step", "p50", "p95", WAIT, "gpu-memory", "host-memory", "loss")
NAMES = (*LOWER_IS_BETTER, "samples")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run, or one block of a run, as the quantities see it."""

    evidence: Evidence
    batch: int | None = None  # samples that one step works on; None: nobody knows
    lines: tuple[str, ...] = field(default=(), repr=False)  # what the script printed


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a run, and how to read it; ``None`` is a run that does not tell."""

    quality: Quality
    read: Callable[[Sample], float | None]


def sample(recording: Recording) -> Sample:
    """What the quantities need of a recording; of several processes, the first speaks for all."""
    first = recording.evidences[0]
    each = _samples_per_step(first)
    batch = None if each is None else each * len(recording.evidences)
    return Sample(first, batch, tuple(recording.printed()))


def step_ms(evidence: Evidence) -> float | None:
    """Mean step but for the slowest twentieth.

    A median would not see that every fourth step waits for four workers; a mean sees every hiccup.
    """
    times = sorted(step.total_ms for step in evidence.steady)
    return fmean(times[: len(times) - int(HICCUPS * len(times))]) if times else None


def wait_ms(evidence: Evidence) -> float | None:
    """Mean wait for data."""
    return evidence.mean_ms("data_wait_ms") if evidence.steady else None


def gpu_peak_bytes(evidence: Evidence) -> int | None:
    """The highest peak that was read after the warm-up, if any was; else the highest of all.

    A peak is the highest so far and holds the warm-up, too, unless somebody counts anew: what tiles
    a VAE from its second call on does, and must not be charged with the first one.
    """
    known = [(each.at_s, each.gpu_peak_bytes) for each in evidence.memory if each.gpu_peak_bytes]
    ends_s = max((step.ended_s for step in evidence.steps[: evidence.warmup_steps]), default=0.0)
    later = [peak for at_s, peak in known if at_s > ends_s]
    return max(later or [peak for _, peak in known], default=None)


def own_metric(pattern: str, lower_is_better: bool) -> Quantity:
    """The last match of the user's own pattern in what the script printed."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise PitstopError(f"--metric {pattern!r}: {error}; try 'psnr=(\\S+)'") from None
    if compiled.groups != 1:
        raise PitstopError(f"--metric {pattern!r}: put the number, and only it, into parentheses")
    quality = Quality(metric_name(pattern), "", not lower_is_better)
    return Quantity(quality, lambda sample: _last_number(sample.lines, compiled))


def metric_name(pattern: str) -> str:
    """A metric is called by the first word of its pattern; ``printed-loss`` where that is taken."""
    word = re.search(r"(?<!\\)[A-Za-z_]\w*", pattern)
    name = word.group() if word else "metric"
    return f"printed-{name}" if name in {*NAMES, "memory"} else name


def built_in(samples: Sequence[Sample]) -> tuple[Quantity, ...]:
    """What can be read off these runs besides their losses."""
    known = all(each.batch for each in samples)
    rate = Quality("samples", "samples/s" if known else "steps/s", higher_is_better=True)
    return (
        Quantity(Quality("step", "ms"), lambda sample: step_ms(sample.evidence)),
        Quantity(Quality("p50", "ms"), partial(_percentile, rank=50)),
        Quantity(Quality("p95", "ms"), partial(_percentile, rank=95)),
        Quantity(rate, partial(_per_second, known=known)),
        Quantity(Quality(WAIT, "ms"), lambda sample: wait_ms(sample.evidence)),
        Quantity(Quality("gpu-memory", "bytes"), lambda sample: gpu_peak_bytes(sample.evidence)),
        Quantity(Quality("host-memory", "bytes"), _host_peak),
    )


def work_ms(samples: Sequence[Sample]) -> float:
    """The usual step without its wait: what a wait is added to, to judge it by its weight."""
    pairs = [(step_ms(each.evidence) or 0.0, wait_ms(each.evidence) or 0.0) for each in samples]
    return max(0.0, median(step - wait for step, wait in pairs))


def _percentile(sample: Sample, rank: int) -> float | None:
    times = [step.total_ms for step in sample.evidence.steady]
    if len(times) < 2:
        return times[0] if times else None
    return quantiles(times, n=100, method="inclusive")[rank - 1]


def _per_second(sample: Sample, known: bool) -> float | None:
    """By the plain mean: here every hiccup counts."""
    if not sample.evidence.steady:
        return None
    return 1e3 / sample.evidence.mean_ms("total_ms") * (sample.batch or 1 if known else 1)


def _host_peak(sample: Sample) -> float | None:
    known = [each.host_bytes for each in sample.evidence.memory if each.host_bytes]
    return max(known) if len(known) >= LOOKS_AT_HOST else None


def _samples_per_step(evidence: Evidence) -> int | None:
    """Batch size of the busiest loader times the batches that one step takes of it."""
    loaders = [each for each in evidence.loaders if each.batch_size and each.batches]
    if not loaders or not evidence.steps:
        return None
    loader = max(loaders, key=lambda each: (each.trains, each.batches))
    return (loader.batch_size or 1) * max(1, round(loader.batches / len(evidence.steps)))


def _last_number(lines: Sequence[str], pattern: re.Pattern[str]) -> float | None:
    found = [match.group(1) for line in lines for match in pattern.finditer(line)]
    try:
        value = float(found[-1].rstrip(",;%")) if found else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None
