"""Candidates: which changes are worth a trial on this script, and in which order."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pitstop.core.evidence import Evidence
from pitstop.core.finding import Finding
from pitstop.core.trial import Trial
from pitstop.tune.change import Change, Facts, Goal
from pitstop.tune.plan import Options, Wanted

# What no finding asks for comes in this order, by what it may bring for the runs that it takes.
ORDER = (
    "no-empty-cache",
    "tf32",
    "inference-mode",
    "no-attention-weights",
    "bf16",
    "fp16",
    "checkpointing-off",
    "checkpointing-on",
    "tiled-vae",
    "fused-group-norm",
    "channels-last",
    "fused-optimizer",
    "non-blocking",
    "threads",
    "loader",
    "allocator",
    "batch-size",
    "cudnn-benchmark",
    "compile",
)
LAST = "compile"
LATE = ("cudnn-benchmark", LAST)  # once kept, each run of a later candidate would start as slowly
MUCH_SLOWER = 1.1  # times as long: casting alone takes less
UNSAID = "as the user wants it, or of no use here"  # a reason that nobody needs to hear


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change to try, with each of these options, and what a finding promised of it."""

    change: Change
    options: tuple[Options, ...]
    predicted: float | None = None  # share of the step that is at stake
    code: str = ""  # of the finding that asks for it
    bursts: Callable[[Options, bool], int] = lambda *_: 0
    waits: bool = False  # for data, as its first run has shown
    epoch: int = 0  # steps of one, if it changes how epochs begin

    @property
    def goes_on(self) -> bool:
        """Whether the run that tells its numbers can go on to tell its time."""
        return self.change.toggles and not self.change.alone and len(self.options) == 1

    @property
    def burst(self) -> int:
        """So many steps come at once, at most, and only together their times tell something."""
        return max(self.bursts(each, self.waits) for each in self.options)

    def first(self, number: int) -> "Candidate":
        """With its first sets of options alone: the most promising ones."""
        return replace(self, options=self.options[:number])

    def wanted(self) -> list[Wanted]:
        """What to ask of the script's process, one for each set of options."""
        return [Wanted(self.change.name, dict(each)) for each in self.options]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user allows."""

    goal: Goal = "time"
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    training_changes: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """What will be tried, in order, and a line for each group that will not."""

    chosen: tuple[Candidate, ...]
    left_out: tuple[str, ...] = ()


def facts_of(evidence: Evidence, cores: int) -> Facts:
    """What the first run showed."""
    on_gpu = any(each.gpu_peak_bytes for each in evidence.memory)
    device = evidence.settings.device if evidence.settings else "cuda" if on_gpu else "cpu"
    return Facts(evidence, device.partition(":")[0], cores)


def choose(
    changes: Iterable[Change], findings: Sequence[Finding], facts: Facts, choice: Choice
) -> Candidates:
    """The candidates that findings ask for, by what they promise, and those always worth a try."""
    known = {each.name: each for each in changes}
    asked = {each: _asked_for(each, findings) for each in known}
    reasons: dict[str, list[str]] = {}
    chosen = []
    for name, change in known.items():
        predicted, code = asked[name]
        if reason := _against(change, bool(code), facts, choice):
            reasons.setdefault(reason, []).append(name)
        else:
            options = tuple(change.tries(facts))
            bursts = partial(change.when.bursts, facts.evidence)
            epoch = change.when.epoch(facts.evidence)
            chosen.append(Candidate(change, options, predicted, code, bursts, epoch=epoch))
    reasons.pop(UNSAID, None)
    left_out = [f"{why}: {', '.join(sorted(names))}" for why, names in reasons.items()]
    return Candidates(tuple(_in_order(chosen)), tuple(left_out))


def rival(change: Change, kept: Iterable[Change]) -> str:
    """A kept change beside which this one makes no sense; empty where there is none."""
    return next((each.name for each in kept if each.name in change.when.rivals), "")


def spared(change: Change, trials: Iterable[Trial]) -> str:
    """Why a change need not be tried after one that is like it; empty where there is none.

    One that made the step longer may lack the hardware which the other has.
    """
    for each in trials:
        if each.change in change.when.like:
            if each.verdict == "failed":
                return f"{each.change} failed, and this does the same to the script"
            usual = each.step is not None and (each.step.ratio or math.inf) < MUCH_SLOWER
            if each.verdict in {"noisy", "not-faster"} and usual:
                return f"{each.change} is no gain, and this is as fast"
    return ""


def _against(change: Change, asked_for: bool, facts: Facts, choice: Choice) -> str:
    """Why a change is not tried; empty where it is."""
    name = change.name
    if name in choice.skip or (choice.only and name not in choice.only):
        return UNSAID
    if change.effect == "changes-training" and not choice.training_changes:
        return "not tried without --allow-training-changes"
    if choice.only:
        return ""
    if choice.goal not in change.helps:
        return UNSAID
    return next(_obstacles(change, asked_for, facts), "")


def _obstacles(change: Change, asked_for: bool, facts: Facts) -> Iterator[str]:
    when = change.when
    if when.device not in {"", facts.device}:
        yield "not tried on a CPU" if facts.device == "cpu" else UNSAID
    if asked_for:
        return
    if when.work not in {"", facts.work}:
        yield UNSAID
    if reason := when.useless(facts.evidence):
        yield f"not tried, since {reason}"


def _asked_for(name: str, findings: Sequence[Finding]) -> tuple[float | None, str]:
    """What findings promise of a change, all together, and the code of the largest.

    No two of them promise the same part of the step.
    """
    found = [each for each in findings if name in each.changes and each.confidence != "suspected"]
    if not found:
        return None, ""
    best = max(found, key=lambda each: each.saving or 0.0)
    savings = [each.saving for each in found if each.saving is not None]
    return min(1.0, sum(savings)) if savings else None, best.code


def _in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """By promise, but each behind those that decide whether it helps: they are as urgent as it."""
    tried = tuple(candidates)
    found = sorted(tried, key=lambda each: _order(each, _at_stake(each, tried)))
    for each in list(found):
        before = [
            place for place, one in enumerate(found) if one.change.name in each.change.when.after
        ]
        place = found.index(each)
        found.insert(max([place, *before]), found.pop(place))
    return found


def _at_stake(candidate: Candidate, others: Iterable[Candidate]) -> float:
    """What is promised of a change, or of one that waits for it."""
    waiting = (each for each in others if candidate.change.name in each.change.when.after)
    return max(each.predicted or 0.0 for each in (candidate, *waiting))


def _order(candidate: Candidate, at_stake: float) -> tuple[int, float, bool, int]:
    name = candidate.change.name
    place = ORDER.index(name) if name in ORDER else len(ORDER)
    late = LATE.index(name) + 1 if name in LATE else 0
    if candidate.change.effect == "changes-training":
        late = len(LATE) + 1  # once it is kept, no later one's numbers can be held against any
    return late, -at_stake, not candidate.code, place
