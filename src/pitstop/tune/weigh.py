"""Weigh: pairs of times without and with a change, and what they mean for it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.core.comparison import Comparison
from pitstop.core.timing import Timing
from pitstop.core.trial import Trial, Verdict
from pitstop.core.units import binary_bytes, count, percent
from pitstop.tune.looks import EARLIEST, cannot_help, compared
from pitstop.tune.track import Changes, Checked, RunError, Track

FEWEST_SAMPLES = 4  # that a Timing is made of
PEAK = pairs.Quality("peak memory", "bytes")
NEAR_LIMIT = 0.92  # of the device's memory: the rest goes to fragments, cuDNN and longer inputs
WORTH_BYTES = 0.03  # of the peak: what a change must save at least to be kept for memory


def verdict_on(step: Comparison) -> tuple[Verdict, str]:
    """What becomes of a change by its time, and why where it is not kept."""
    if step.verdict == "better":
        return "kept", ""
    if step.verdict == "worse":
        return "not-faster", "slower"
    if step.pairs == EARLIEST:
        return "not-faster", f"no gain in any of {EARLIEST} pairs"
    if step.verdict == "same" or cannot_help(step):
        return "not-faster", f"no gain of {percent(pairs.SMALLEST)} or more"
    return "noisy", step.reason


def trial(name: str, verdict: Verdict, before: Checked, after: Checked, note: str) -> Trial:
    """What became of a change by its first run."""
    memory = peaks(before, after)
    return Trial(
        name, verdict, memory=memory, drift=after.drift, tolerance=after.tolerance, note=note
    )


def by_time(
    name: str, before: Checked, after: Checked, times: Pairs[float], limit_bytes: int | None
) -> Trial:
    """What becomes of a change whose numbers hold."""
    step = compared(times)
    verdict, note = verdict_on(step)
    if verdict == "kept":
        note = pays_off(after, times)
        if too_large := crowded(before, after, limit_bytes):
            verdict, note = "out-of-memory", too_large
    found = trial(name, verdict, before, after, note)
    return replace(found, step=step, before=timing(times.before), after=timing(times.after))


def over_seeds(track: Track, changes: Changes, checked: Checked, found: Trial) -> Trial:
    """What would be kept goes where its numbers, which one run left open, do not hold.

    Seeds take some runs: what is no gain is spared them.
    """
    if found.verdict != "kept" or not checked.needs_seeds:
        return found
    try:
        numbers = track.over_seeds(changes)
    except RunError as error:
        numbers = Checked(error.verdict, error.note)
    found = replace(found, drift=numbers.drift, tolerance=numbers.tolerance)
    if not numbers.refused:
        return found
    return replace(
        found, verdict=numbers.refused, note=numbers.note, step=None, before=None, after=None
    )


def by_memory(before: Checked, after: Checked) -> tuple[Verdict, str]:
    """Peaks hardly vary from run to run: one each will do. The time is told, not judged."""
    if not before.peak_bytes or not after.peak_bytes:
        return "not-applicable", "no peak was recorded"
    saves = after.peak_bytes < (1 - WORTH_BYTES) * before.peak_bytes
    little = f"saves less than {percent(WORTH_BYTES)} of the peak of"
    said = [] if saves else [f"{little} {binary_bytes(before.peak_bytes)}"]
    if before.step_ms and after.step_ms:
        said.append(f"its step took {after.step_ms / before.step_ms:.2f} times as long")
    return "kept" if saves else "not-faster", "; ".join(said)


def crowded(before: Checked, after: Checked, limit_bytes: int | None) -> str:
    """Why a faster change is refused for its memory; empty where it has room."""
    peak = after.peak_bytes or 0
    if not limit_bytes or peak <= max(NEAR_LIMIT * limit_bytes, before.peak_bytes or 0):
        return ""
    near = f"comes near the {binary_bytes(limit_bytes)}"
    return f"faster, but its peak of {binary_bytes(peak)} {near}"


def pays_off(checked: Checked, times: Pairs[float]) -> str:
    """After how many steps compilation has paid for itself; empty where nothing was compiled."""
    saved_ms = median(times.before) - median(times.after)
    if not checked.compile_s or saved_ms <= 0:
        return ""
    steps = math.ceil(checked.compile_s * 1000 / saved_ms)
    again = f", {count(checked.recompiled, 'recompilation')}" if checked.recompiled else ""
    return f"compiles for {checked.compile_s:.0f} s{again}, which pays off after {steps:,} steps"


def helps(step: Comparison) -> bool:
    """Whether a change that was proved before still seems to earn its place."""
    if step.verdict == "better":
        return True
    gains = step.ratio is not None and step.ratio < 1 - pairs.SMALLEST
    return step.verdict == "inconclusive" and gains


def peaks(before: Checked, after: Checked) -> Comparison | None:
    """Peak memory, from one run each; nothing where it was not recorded."""
    a, b = before.peak_bytes, after.peak_bytes
    if not a or not b:
        return None
    found = pairs.verdict([float(a)], [float(b)], pairs.Noise(), PEAK)
    return replace(found, reason="one run each")


def timing(samples: Sequence[float]) -> Timing | None:
    """The samples as a Timing, where they are enough for one."""
    return Timing(tuple(samples)) if len(samples) >= FEWEST_SAMPLES else None
