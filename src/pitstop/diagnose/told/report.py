"""Story: a diagnosed recording as a Report, the answer first."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pitstop.core.evidence import Evidence
from pitstop.core.finding import Finding
from pitstop.core.ledger import Cause, Ledger
from pitstop.core.machine import BUSY
from pitstop.core.report import Report
from pitstop.core.units import count, milliseconds, percent
from pitstop.diagnose.ledger.gain import gain
from pitstop.diagnose.ledger.unseen import how_to_measure, why_unseen
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.excerpts import Excerpts
from pitstop.diagnose.told.place import relative_to
from pitstop.diagnose.told.tables import tables

KIND = {
    "optimizer": "a step ends when the optimizer has stepped",
    "loader": "no optimizer: a step is the work on one batch",
    "module": "no optimizer, no DataLoader: a step is one call of the model",
    "marked": "steps as marked by the script",
}
IN_TURN = {
    "optimizer": "a step ends when the optimizers have stepped {} times",
    "loader": "no optimizer: a step is the work on {} batches",
    "module": "no optimizer, no DataLoader: a step is {} calls of models",
}
CAUSES: dict[Cause, str] = {
    "data": "waiting for data",
    "sync": "idle after synchronisations",
    "transfer": "idle in transfers",
    "launch": "idle between launches",
    "core": "waiting for a core that others use",
    "python": "Python",
    "unused": "work that nobody uses",
    "repeated": "repeated calls",
    "layout": "layout conversion",
    "copy": "copies",
    "optimizer": "the optimizer",
    "start": "overhead of small operations",
    "above": "operations below full speed",
    "precision": "a slower precision than it has",
}
BY_SIGNAL = 128  # exit codes of shells from here on are signals
SPREAD_OF = 4  # steps: fewer have no half in the middle
WORTH_SAYING = 0.05  # of the step: causes below this are left to the table
MOST_CAUSES = 3
FAR_UNEVEN = 1.5  # times the median: the mean is the more telling one
UNEVEN = 1.1  # times the median: a mean above that has outliers which the table does not show
NO_EXCERPTS = Excerpts()
NEAR_THE_FLOOR = 0.7  # of the step
TOO_LITTLE = 0.02  # of the step: two measurements differ by as much
TOO_BUSY = 0.3  # of the step without a core: what others do is the first thing to change
MARK = "mark a step: `with pitstop.step(): ...` around the body of the loop"
WAIT = "let it run until some steps are done: it was ended before its first one"
MEND = "mend the script first: it ended before its first step"


def build_report(
    recording: Recording,
    findings: Sequence[Finding],
    name: str,
    code: int | None,
    root: str = "",
    source: Excerpts = NO_EXCERPTS,
    typed: str = "",
) -> Report:
    """The report of one recording; ``code`` is how the script ended, ``root`` where paths begin.

    ``typed`` is the script with its arguments, for a command to go on with.
    """
    first = recording.evidence
    ledger = recording.ledger
    shown = tuple(
        replace(each, excerpt=source.at(each.span), span=relative_to(each.span, root))
        for each in findings
    )
    cured = _cured_next(first, ledger, shown, code)
    return Report(
        command="profile",
        verdict=_verdict(first, ledger, name),
        why=_why(first, ledger),
        next=_next(first, ledger, cured, code, typed or name),
        typed=typed,
        where=f"{cured.span.path}:{cured.span.line}" if cured and cured.span else "",
        gain=gain(shown, ledger),
        machine=recording.machine,
        ledger=ledger,
        tables=tuple(tables(recording.ranks)),
        findings=shown,
        notes=(*_others(first), *_remarks(first, code), *_stacks(first)),
        ranks=recording.ranks,
    )


def _verdict(evidence: Evidence, ledger: Ledger | None, name: str) -> str:
    if ledger is None:
        return f"{name}: no step could be timed."
    said, mean_ms = f"{milliseconds(ledger.step_ms)} per step", evidence.mean_ms("total_ms")
    busy = _busy(evidence)
    if busy and len(evidence.steady) >= SPREAD_OF:
        low, high = map(milliseconds, evidence.quartiles_ms())
        said = f"{low} to {high} per step, {milliseconds(ledger.step_ms)} in the middle"
    if mean_ms > FAR_UNEVEN * ledger.step_ms:
        said += f", {milliseconds(mean_ms)} on average"
    if ledger.floor_ms:
        said += f"; this machine needs at least {milliseconds(ledger.floor_ms)} for it"
    first = f"Other programs use {percent(busy)} of this machine's cores. " if busy else ""
    return f"{first}{name}: {said}."


def _busy(evidence: Evidence) -> float:
    """The share of the cores that others used, where that is enough to matter."""
    return evidence.others if evidence.others and evidence.others >= BUSY else 0.0


def _why(evidence: Evidence, ledger: Ledger | None) -> str:
    if ledger is None:
        seen = f"{len(evidence.steps)} finished steps, {len(evidence.loaders)} DataLoaders"
        return f"Seen: {seen}, {sum(each.batches for each in evidence.loaders)} batches."
    shares = {cause: ledger.share(ledger.total(cause)) for cause in CAUSES}
    named = sorted(shares, key=lambda cause: -shares[cause])[:MOST_CAUSES]
    said = [f"{percent(shares[cause])} {CAUSES[cause]}" for cause in named]
    large = [text for cause, text in zip(named, said, strict=True) if shares[cause] > WORTH_SAYING]
    large += [unseen] if (unseen := why_unseen(evidence, ledger)) else []
    measured = f"Measured on {count(len(evidence.steady), 'step')}"
    if len(evidence.steady) >= SPREAD_OF and not _busy(evidence):  # else the verdict tells
        low, high = map(milliseconds, evidence.quartiles_ms())
        measured += f", half of them between {low} and {high}"
    measured += f"; {_kind(evidence)}."
    causes = [f"{', '.join(large)}."] if large else []
    return " ".join([*causes, measured, *headspace(evidence)])


def _kind(evidence: Evidence) -> str:
    many = evidence.step_events
    return KIND[evidence.step_kind] if many == 1 else IN_TURN[evidence.step_kind].format(many)


def _next(
    evidence: Evidence,
    ledger: Ledger | None,
    cured: Finding | None,
    code: int | None,
    typed: str,
) -> str:
    if cured:
        return f"{cured.cure} (pitstop explain {cured.code})"
    if not evidence.steady and evidence.steps:
        return "record more steps"
    if not evidence.steps and code:
        return WAIT if by_signal(code) else MEND
    if ledger and why_unseen(evidence, ledger):
        return how_to_measure(evidence, ledger)
    return _what_is_left(ledger, typed) if evidence.steps else MARK


def _cured_next(
    evidence: Evidence, ledger: Ledger | None, findings: Sequence[Finding], code: int | None
) -> Finding | None:
    """The finding to mend next; none where the script or its recording has to go further first."""
    failed = not evidence.steps and code and not by_signal(code)
    too_short = evidence.steps and not evidence.steady
    if failed or too_short or (ledger and why_unseen(evidence, ledger)):
        return None
    return next(iter(_to_mend(findings)), None)


def _what_is_left(ledger: Ledger | None, typed: str) -> str:
    """What to do where no finding says it."""
    if ledger and ledger.share(ledger.floor_ms or 0.0) >= NEAR_THE_FLOOR:
        return "nothing: the step is near full speed; less work or faster hardware is what is left"
    if ledger and ledger.share(ledger.total("core")) >= TOO_BUSY:
        return "run it again when other programs leave it the cores, which it now waits for"
    return f"pitstop tune {typed} tries what a recording cannot tell: compile, precision, layout"


def _to_mend(findings: Sequence[Finding]) -> list[Finding]:
    """What is worth doing next: no note, and nothing that is only suspected."""
    return [
        each
        for each in findings
        if each.cure and each.severity != "note" and each.confidence != "suspected"
    ]


def _others(evidence: Evidence) -> Iterator[str]:
    if _busy(evidence):
        yield (
            f"others used {percent(_busy(evidence))} of the cores meanwhile: what runs on a CPU "
            "takes longer, and is less even, than on a quiet machine"
        )


def headspace(evidence: Evidence) -> Iterator[str]:
    """What a perfect loader would give, where that was measured."""
    found = evidence.headspace
    if found is None or not evidence.steady:
        return
    step_ms = evidence.median_ms()
    best_ms = found.step_ms
    if not any(each.workers for each in evidence.loaders if each.trains):
        # The script's own thread reads. Its wait is all that can go: less was a faster machine.
        best_ms = max(best_ms, step_ms - evidence.median_ms("data_wait_ms"))
    share = (step_ms - best_ms) / step_ms
    gain = f", {percent(share)} less" if share >= TOO_LITTLE else ", no less than now"
    if _busy(evidence):
        gain = ""  # what others did meanwhile was something else
    yield (
        f"With its batches in memory a step takes {milliseconds(best_ms)}{gain}: what a "
        f"perfect loader would give ({count(found.steps, 'step')})."
    )


def _remarks(evidence: Evidence, code: int | None) -> Iterator[str]:
    looked = sum(step.inspected for step in evidence.steps)
    yield f"{evidence.warmup_steps} warm-up steps and {looked} inspected ones, not in the step time"
    if evidence.start_s:
        yield f"start-up before the first step: {milliseconds(evidence.start_s * 1e3)}"
    if evidence.steady and evidence.mean_ms("total_ms") > UNEVEN * evidence.median_ms():
        longest = max(step.total_ms for step in evidence.steady)
        mean = milliseconds(evidence.mean_ms("total_ms"))
        yield f"some steps are far longer, up to {milliseconds(longest)}: the mean is {mean}"
    for name, seconds in (("validation", evidence.validation_s), ("saving", evidence.saving_s)):
        if seconds:
            yield f"{name}, beside the steps: {milliseconds(seconds * 1e3)}"
    if evidence.left_out_slices:
        yield f"the run was long: {evidence.left_out_slices} slices were counted but not kept"
    if evidence.unreadable:
        yield f"the recording is damaged: {count(evidence.unreadable, 'part')} of it left out"
    if code:
        yield f"the script was ended by {_signal(-code)}" if code < 0 else f"its exit code: {code}"


def _stacks(evidence: Evidence) -> Iterator[str]:
    for stack in evidence.stacks:
        yield from stack.expandtabs().splitlines()


def by_signal(code: int | None) -> bool:
    """Whether somebody ended the run: a signal did, or Ctrl-C, as Python and shells tell it."""
    return code is None or code < 0 or code >= BY_SIGNAL


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
