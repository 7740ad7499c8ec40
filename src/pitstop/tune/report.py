"""Report: what a search came to, as a Report, the answer first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from pitstop.core.comparison import Comparison
from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger
from pitstop.core.report import Report
from pitstop.core.trial import Trial
from pitstop.core.units import binary_bytes, change, count, milliseconds, percent
from pitstop.diagnose.ledger.gain import gain
from pitstop.diagnose.told.report import headspace
from pitstop.report.wording import interval
from pitstop.tune.change import Goal
from pitstop.tune.checked import label as name_of
from pitstop.tune.found import Found, WhatIf, leading

WHAT_IF = "leave-out"  # the change that is tried in the place of an edit
AT = f"{WHAT_IF} at="
SETTLED = {"kept", "not-faster", "drifted"}  # what noise or a failure left open is open


@dataclass(frozen=True, slots=True)
class About:
    """What the story is about, beside what the search found."""

    name: str  # of the script
    goal: Goal = "time"
    command: str = ""  # as it was typed, to be run with what was kept
    tuned: str = ""  # the file that holds what was kept; empty: none was written
    patch: str = ""  # the file that holds the edits, whether or not it was written
    after: Ledger | None = None  # where the step goes with all that was kept
    notes: tuple[str, ...] = ()


def build_report(profile: Report, found: Found, about: About) -> Report:
    """The report of a search, on top of that of the untouched run."""
    left = tuple(_still_promised(profile.findings, found.trials))
    return replace(
        profile,
        command="tune",
        verdict=f"{about.name}: {what_if(found.what_if)}{_verdict(found, about)}",
        why=_why(found, about.goal),
        next=_next(found, about),
        gain="" if found.kept else gain(left, profile.ledger),  # of the untouched script
        findings=left,
        trials=found.trials,
        comparisons=found.proof,
        after=about.after,
        tables=(),
        notes=(*_headspace(profile), *_notes(found), *about.notes),
    )


def _still_promised(findings: Sequence[Finding], trials: Sequence[Trial]) -> Iterator[Finding]:
    """The findings; where a change was tried that one asks for, it is known what it brings."""
    places = {each.change.partition(AT)[2].partition(" ")[0]: each for each in trials}
    told = [each for each in trials if each.verdict in SETTLED and AT not in each.change]
    settled = {each.change.partition(" ")[0] for each in told}
    for each in findings:
        place = f"{PurePath(each.span.path).name}:{each.span.line}" if each.span else ""
        if WHAT_IF in each.changes and place in places:
            yield _tried(each, places[place])
        else:
            yield replace(each, saving=None) if settled & {*each.changes} else each


def _tried(found: Finding, trial: Trial) -> Finding:
    """A finding whose cure was tried as if the source had been edited."""
    if trial.verdict != "what-if":
        return replace(found, cure=f"{found.cure}; tried: {trial.verdict}, {trial.note}")
    worth = 1 - trial.step.ratio if trial.step and trial.step.ratio else None
    by = f"worth {percent(worth)}, " if worth else ""
    cure = f"{found.cure}; tried: {by}{trial.note}"
    return replace(found, cure=cure, saving=found.saving if worth is None else worth)


def proved(found: Found, goal: Goal) -> bool:
    """Whether what was kept may be handed out: nothing speaks against it in the proof."""
    if not found.kept or found.broken:
        return False
    return not found.proof or leading(found, goal).verdict in {"better", "inconclusive"}


def what_if(found: WhatIf | None) -> str:
    """What an edit of the source is worth, first of all; empty where nothing is known of one."""
    if found is None or not found.step.ratio:
        return ""
    one = len(found.places) == 1
    places = ", ".join(found.places)
    worth = percent(1 - found.step.ratio)
    edits = f"an edit at {places} is" if one else f"edits at {places} are together"
    return f"{edits} worth {worth}: tried, {found.numbers}; "


def _of_edits(found: Found) -> Iterator[str]:
    """What becomes of the edits that leave out what nobody needs."""
    if found.what_if and found.what_if.lost:
        yield f"left out with it: {', '.join(found.what_if.lost)}"
    if found.patched:
        yield from filter(None, (found.patched.said, *found.patched.by_hand))


def _verdict(found: Found, about: About) -> str:
    if not found.kept:
        if found.interrupted:
            return "ended by Ctrl-C; nothing was kept until then."
        if found.what_if:
            return "nothing else that was tried is kept."
        return f"{_nothing(found, about.goal)}. It is left as it is."
    if found.broken:
        return f"what was kept, all together, broke the proof: {found.broken}."
    if not found.proof:
        names = ", ".join(map(name_of, found.kept))
        end = "ended by Ctrl-C before the proof" if found.interrupted else "there was no proof"
        return f"{end}; kept until then: {names}."
    return _proof(leading(found, about.goal))


def _nothing(found: Found, goal: Goal) -> str:
    """Nothing was kept: what is known is one thing, what noise has hidden another."""
    if any(each.verdict == "noisy" for each in found.trials):
        return "nothing that was tried is proved faster; some of it drowned in noise"
    if all(each.verdict == "not-applicable" for each in found.trials):
        return "the budget was spent first" if unfinished(found) else "no change applies to it"
    better = "makes it faster" if goal == "time" else "saves memory"
    harmed = any(each.verdict == "drifted" for each in found.trials)
    return f"nothing that was tried {better}{' and keeps its numbers' if harmed else ''}"


def _proof(step: Comparison) -> str:
    """What the last pairs said."""
    before, after = (_quantity(each, step.unit) for each in (step.before, step.after))
    by = change(step.ratio) if step.ratio else "n/a"
    by = f"{by} ({interval(step)})" if step.low is not None else by
    said = f"{step.metric} {after} instead of {before}, {by}"
    if step.verdict == "better":
        return f"{said}, and the numbers hold."
    if step.verdict == "inconclusive":
        return f"{said}; it was faster in its trials, the sum is inconclusive: {step.reason}."
    return f"together what was kept is no gain: {said}."


def _why(found: Found, goal: Goal) -> str:
    counts = Counter(each.verdict for each in found.trials)
    parts = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    tried = f"{count(len(found.trials), 'trial')}: {parts}." if found.trials else "No trial ended."
    kept = ", ".join(map(name_of, found.kept))
    word = "Kept" if proved(found, goal) else "Kept until the proof"
    return f"{word}: {kept}. {tried}" if kept else tried


def _headspace(profile: Report) -> Iterator[str]:
    """What a perfect loader would give the untouched script."""
    for evidence in profile.ranks[:1]:
        yield from headspace(evidence)


def _notes(found: Found) -> Iterator[str]:
    if found.null:
        yield f"the untouched script against itself: {found.null}"
    yield from _of_edits(found)
    yield from found.notes
    if found.unproved:
        yield f"the proof: {found.unproved}"
    if found.untried:
        yield f"not tried, since the budget is spent: {', '.join(found.untried)}"


def _next(found: Found, about: About) -> str:
    if about.tuned:
        return f"pitstop run --with {about.tuned} {about.command}"
    if found.patched and found.patched.on:
        return f"git apply {about.patch}"
    if not found.kept and unfinished(found):
        return "give it more time: pitstop tune --budget MINUTES"
    if any(each.verdict == "noisy" for each in found.trials):
        return "a quieter machine, or a larger --budget, would settle what was noisy"
    return ""


def unfinished(found: Found) -> bool:
    """Whether more time would have told more."""
    return bool(found.untried) or any(each.reason == "budget" for each in found.trials)


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "n/a"
    if unit == "ms":
        return milliseconds(value)
    return binary_bytes(value) if unit == "bytes" else f"{value:.4g} {unit}"


def said(trial: Trial) -> str:
    """One line for a trial that has just ended: ``tf32: kept, 12 % (11 to 14 %) less``."""
    gain = ""
    if trial.step and trial.step.ratio and trial.verdict == "kept":
        gain = f", {percent(1 - trial.step.ratio)} less time"
    note = f" ({trial.note})" if trial.note else ""
    return f"{trial.change}: {trial.verdict}{gain}{note}"
