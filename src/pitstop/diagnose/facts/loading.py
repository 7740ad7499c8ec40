"""Loading: the loader that feeds the steps, what the wait for it costs, and where it is slow."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pitstop.core.evidence import Evidence, Line, Loader, Sampled, Step
from pitstop.core.finding import Metric
from pitstop.core.ledger import Row
from pitstop.core.units import milliseconds, percent
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import label

WORTH_MENTIONING = 0.05  # share of the step in which the GPU waits; below this it is noise
WORTH_ON_A_CPU = 0.20  # of the step there: a small step has a tenth anyway, and workers take cores
FAR_LESS = 0.5  # of the mean wait, in the second half of the run: the first was no usual one
FEWEST_STEPS = 2  # undisturbed ones: the first batch of all is waited for in every run
HANDOVER_MS = 2.0  # a batch from a worker costs 1 to 2 ms itself: no setting saves less than that


@dataclass(frozen=True, slots=True)
class Wait:
    """What a step waits for its loader; ``long`` is a wait that is worth shortening."""

    loader: Loader
    ms: float
    step_ms: float
    median_ms: float  # of a step, which is what the ledger splits
    share: float
    long: bool

    @property
    def words(self) -> str:
        """``40.0 ms of 100 ms (40 %)``."""
        whole = milliseconds(self.step_ms)
        return f"{milliseconds(self.ms)} of {whole} ({percent(self.share)})"

    @property
    def claims(self) -> tuple[Row, ...]:
        """The ledger's row; a wait in bursts is longer than that, which is of the median step."""
        return (Row("data", self.share * self.median_ms),)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The numbers behind the words."""
        return Metric("data wait", self.ms, "ms"), Metric("step", self.step_ms, "ms")


def saved_by_workers(wait: Wait, recording: Recording) -> float:
    """The share of the step that workers can take off, where the script reads samples itself."""
    reading_ms = wait.ms * (wait.loader.computes or 0.0)
    working_ms = working_beside_ms(recording, wait.step_ms - wait.ms, reading_ms) + HANDOVER_MS
    return min(wait.share, max(0.0, 1 - working_ms / wait.step_ms))


def working_beside_ms(recording: Recording, working_ms: float, aside_ms: float) -> float:
    """What is left of a step where others do a part of it, which takes a core for so long.

    That must be computed by somebody, and so must the model's part of the step: on the cores that
    there are, but for those that other programs use.
    """
    if not recording.machine.cores:
        return working_ms
    free = free_cores(recording)
    computing_ms = working_ms * min(free, threads_of(recording.evidence))
    return max(working_ms, (aside_ms + computing_ms) / free)


def free_cores(recording: Recording) -> float:
    """How many cores other programs leave; one at least."""
    return max(1.0, recording.machine.cores * (1 - (recording.evidence.others or 0.0)))


def threads_of(evidence: Evidence) -> int:
    """How many cores the model's part of the step keeps busy: on a GPU the script's own thread."""
    settings = evidence.settings
    return max(1, settings.threads) if settings and settings.device == "cpu" else 1


def wait_for_data(recording: Recording) -> Wait | None:
    """The wait for the loader that feeds the steps, where one can be shortened."""
    ledger, loader = recording.ledger, feeding_loader(recording.evidence)
    if ledger is None or loader is None or len(recording.evidence.steady) < FEWEST_STEPS:
        return None
    ms, step_ms = ledger.total("data"), ledger.step_ms
    mean_ms, mean_step_ms = _mean_wait(recording.evidence, loader, ledger.device == "cuda")
    if mean_ms * step_ms > ms * mean_step_ms:
        ms, step_ms = mean_ms, mean_step_ms
    share = min(1.0, ms / step_ms) if step_ms else 0.0
    least = WORTH_MENTIONING if ledger.device == "cuda" else WORTH_ON_A_CPU
    return (
        Wait(loader, ms, step_ms, ledger.step_ms, share, share >= least)
        if ms >= HANDOVER_MS
        else None
    )


def _mean_wait(evidence: Evidence, loader: Loader, dry: bool) -> tuple[float, float]:
    """Mean wait and mean length of the steps, of the later ones where those wait far less.

    Workers that are too slow deliver in bursts: one step waits long and some do not at all. That
    is lost on the median. A cache that the first epoch fills is waited for at the start only.
    """
    whole = _mean_of(evidence.steady, loader, dry)
    later = _mean_of(evidence.steady[len(evidence.steady) // 2 :], loader, dry)
    return later if later[0] < FAR_LESS * whole[0] else whole


def _mean_of(steps: Sequence[Step], loader: Loader, dry: bool) -> tuple[float, float]:
    """The same of some steps; the start of an epoch's workers is another matter, and left out."""
    waits = [((step.dry_ms or 0.0) if dry else step.data_wait_ms, step) for step in steps]
    waits.sort(key=lambda each: -each[0])
    firsts = loader.starts if loader.workers and not loader.persistent else 0
    usual = waits[min(firsts, len(waits) - 1) :]
    return fmean(wait for wait, _ in usual), fmean(step.total_ms for _, step in usual)


def feeding_loader(evidence: Evidence) -> Loader | None:
    """The loader of most batches; where optimizers step, one whose batches are learned from."""
    learns = evidence.step_kind == "optimizer"
    found = [each for each in evidence.loaders if each.trains or not learns]
    return max(found, key=lambda each: (each.trains, each.batches), default=None)


def settings(loader: Loader, *wanted: str) -> str:
    """Settings of a loader by the names that its user knows: transformers' Trainer has its own."""
    if loader.asked_by != "transformers":
        return ", ".join(wanted)
    return ", ".join(f"dataloader_{each}" for each in wanted) + " in TrainingArguments"


def reading_samples(evidence: Evidence, loader: Loader) -> list[Sampled]:
    """What ran while the script waited for a batch, here or in a worker, but the waiting itself."""
    found = [each for each in evidence.sampled if each.waiting and each.where.path]
    return [each for each in found if each.where != loader.used]


def mostly_at(evidence: Evidence, loader: Loader) -> str:
    """``, mostly at data.py:31``, where it was seen what takes the time."""
    counts: Counter[Line] = Counter()
    for each in reading_samples(evidence, loader):
        counts[each.where] += each.samples
    return f", mostly at {label(counts.most_common(1)[0][0])}" if counts else ""
