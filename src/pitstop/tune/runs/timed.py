"""Timed: times and peaks without and with a change, and what they mean for it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.core.comparison import Comparison
from pitstop.core.timing import Timing
from pitstop.core.trial import Trial, Verdict
from pitstop.core.units import binary_bytes, percent
from pitstop.tune.guard.verdict import Guarded
from pitstop.tune.runs.looks import cannot_help, compared

FEWEST_SAMPLES = 4  # that a Timing is made of
PEAK = pairs.Quality("peak memory", "bytes")
NEAR_LIMIT = 0.92  # of the device's memory: the rest goes to fragments, cuDNN and longer inputs
WORTH_BYTES = 0.03  # of the peak: what a change must save at least to be kept for memory


@dataclass(frozen=True, slots=True)
class Timed:
    """Pairs of times without and with a change, and what they say."""

    times: Pairs[float]
    step: Comparison

    @property
    def verdict(self) -> Verdict:
        """What becomes of a change by its time."""
        if self.step.verdict == "better":
            return "kept"
        if self.step.verdict in {"worse", "same"} or cannot_help(self.step):
            return "not-faster"
        return "noisy"

    @property
    def note(self) -> str:
        """Why it is not kept."""
        if self.verdict == "not-faster":
            little = f"no gain of {percent(pairs.SMALLEST)} or more"
            return "slower" if self.step.verdict == "worse" else little
        return self.step.reason if self.verdict == "noisy" else ""

    @property
    def gain(self) -> float:
        """The share of the step that it seems to save; negative where it takes longer."""
        return 1 - (self.step.ratio or 1.0)

    @property
    def noise(self) -> float:
        """By how much equal blocks differ."""
        return pairs.noise(self.times.before, self.times.after).largest

    @property
    def before_ms(self) -> float:
        """The usual step without it."""
        return median(self.times.before)

    @property
    def after_ms(self) -> float:
        """And with it."""
        return median(self.times.after)


def by_blocks(times: Pairs[float]) -> Timed:
    """Times of blocks in one process."""
    return Timed(times, compared(times))


def by_time(name: str, timed: Timed, guarded: Guarded, predicted: float | None) -> Trial:
    """What becomes of a change whose numbers hold."""
    found = _trial(name, timed.verdict, guarded, timed.note, predicted)
    before, after = timing(timed.times.before), timing(timed.times.after)
    return replace(found, step=timed.step, before=before, after=after)


def by_memory(
    name: str,
    before: int | None,
    after: int | None,
    guarded: Guarded,
    predicted: float | None,
) -> Trial:
    """Peaks hardly vary from run to run: one each will do."""
    if not before or not after:
        return _trial(name, "not-applicable", guarded, "no peak was recorded", predicted)
    saves = after < (1 - WORTH_BYTES) * before
    little = f"saves less than {percent(WORTH_BYTES)} of the peak of {binary_bytes(before)}"
    verdict: Verdict = "kept" if saves else "not-faster"
    found = _trial(name, verdict, guarded, "" if saves else little, predicted)
    memory = pairs.verdict([float(before)], [float(after)], pairs.Noise(), PEAK)
    return replace(found, memory=replace(memory, reason="one run each"))


def crowded(trial: Trial, before: int | None, after: int | None, limit: int | None) -> Trial:
    """A faster change is refused where its memory comes near the limit of the device."""
    peak = after or 0
    if not limit or peak <= max(NEAR_LIMIT * limit, before or 0):
        return trial
    near = f"comes near the {binary_bytes(limit)}"
    note = f"faster, but its peak of {binary_bytes(peak)} {near}"
    return replace(trial, verdict="out-of-memory", note=note)


def timing(samples: Sequence[float]) -> Timing | None:
    """The samples as a Timing, where they are enough for one."""
    return Timing(tuple(samples)) if len(samples) >= FEWEST_SAMPLES else None


def _trial(
    name: str, verdict: Verdict, guarded: Guarded, note: str, predicted: float | None
) -> Trial:
    return Trial(
        name,
        verdict,
        predicted=predicted,
        drift=guarded.drift,
        tolerance=guarded.tolerance,
        note=note,
    )
