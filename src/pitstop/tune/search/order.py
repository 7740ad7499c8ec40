"""Order: which changes are worth a trial on this script, and which comes before which."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pitstop.core.evidence import Evidence
from pitstop.core.finding import Finding
from pitstop.core.trial import Trial
from pitstop.tune.change import Change, Facts, Goal
from pitstop.tune.plan import Options, Wanted

WORTHWHILE = 0.05  # of the step: what usually brings so much is tried with what is promised
MUCH_SLOWER = 1.1  # times as long: casting alone takes less
UNSAID = "as the user wants it, or of no use here"  # a reason that nobody needs to hear


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change to try, with each of these options, and what a finding promised of it."""

    change: Change
    options: tuple[Options, ...]
    predicted: float | None = None  # share of the step that is at stake
    code: str = ""  # of the finding that asks for it
    setups_s: tuple[float, ...] = ()  # with each of these until its first step is done, about

    @property
    def promising(self) -> bool:
        """Whether it is among those that are tried together, before all others."""
        if not self.change.toggles or self.change.when.late or self.change.when.what_if:
            return False
        usual = self.change.when.usual >= WORTHWHILE
        return self.change.effect != "changes-training" and (bool(self.code) or usual)

    @property
    def stage(self) -> int:
        """What can be switched comes first; what compiles, needs fresh runs or relearns, last."""
        if self.change.effect == "changes-training":
            return 3
        return (
            1 + (not self.change.toggles) if self.change.when.late or not self.change.toggles else 0
        )

    @property
    def setup_s(self) -> float:
        """Until the first step with its first options is done, beside what steps take."""
        return self.setups_s[0] if self.setups_s else 0.0

    def alone(self, number: int = 0) -> "Candidate":
        """With one of its sets of options; the first is the most promising one."""
        one = slice(number, number + 1)
        return replace(self, options=self.options[one], setups_s=self.setups_s[one])

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
    reasons: dict[str, list[str]] = {}
    chosen = []
    facts = replace(facts, goal=choice.goal)
    for change in changes:
        predicted, code = _asked_for(change.name, findings)
        if reason := _against(change, bool(code), facts, choice):
            reasons.setdefault(reason, []).append(change.name)
        else:
            options = tuple(change.tries(facts))
            setups_s = tuple(change.when.takes_s(facts.evidence, each) for each in options)
            if options:
                chosen.append(Candidate(change, options, predicted, code, setups_s))
    reasons.pop(UNSAID, None)
    left_out = [f"{why}: {', '.join(sorted(names))}" for why, names in reasons.items()]
    return Candidates(tuple(sorted(chosen, key=_place)), tuple(left_out))


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
            usual = each.step is not None and (each.step.ratio or MUCH_SLOWER) < MUCH_SLOWER
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
    if reason := when.impossible(facts.evidence):
        yield f"not tried, since {reason}"
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


def _place(candidate: Candidate) -> tuple[int, float, float, str]:
    """By stage, then by what is promised, then by what it usually brings."""
    change = candidate.change
    return candidate.stage, -(candidate.predicted or 0.0), -change.when.usual, change.name
