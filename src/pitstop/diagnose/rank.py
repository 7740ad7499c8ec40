"""Rank: run every rule on a recording, count no millisecond twice, and put the worst first."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pitstop.diagnose.rules
from pitstop.core.finding import Finding, Severity
from pitstop.core.ledger import BUSY, Cause, Ledger
from pitstop.core.rule import Rule, load_rules
from pitstop.diagnose.recording import Recording

RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
TOO_LITTLE = 0.005  # of the step: what is left of a claim after others is no saving of its own
LOOP: tuple[Cause, ...] = ("sync", "python", "launch", *BUSY)  # all that a line of a loop may cost
# The causes that a rule's saving is taken from. Of rules that claim the same, the one that stands
# first says best what to do, and keeps its saving; the others get what is left.
CLAIMS: dict[str, tuple[Cause, ...]] = {
    "PIT613": ("unused",),
    "PIT602": ("unused",),
    "PIT113": ("data",),
    "PIT102": ("data",),
    "PIT101": ("data",),
    "PIT110": ("data",),
    "PIT204": ("sync", "transfer", "launch", "python", "idle"),
    "PIT203": ("transfer", "sync", "copy"),
    "PIT103": ("transfer",),
    "PIT201": LOOP,
    "PIT205": LOOP,
    "PIT208": LOOP,
    "PIT212": ("python",),
    "PIT209": ("sync", "transfer", "launch", "python", "idle"),
    "PIT404": ("launch", "python", "sync"),
    "PIT206": ("launch", "start", "python"),
    "PIT604": ("above", "copy", "floor"),
    "PIT301": ("precision", "above", "repeated"),
    "PIT302": ("precision",),
    "PIT605": ("above",),
    "PIT615": ("copy", "above", "floor"),
    "PIT408": ("above",),
}


def diagnose(recording: Recording) -> tuple[Finding, ...]:
    """All that the rules say about a run, the worst first."""
    rules: list[Rule[Recording]] = load_rules(pitstop.diagnose.rules)
    return ranked((found for rule in rules for found in _run(rule, recording)), recording.ledger)


def ranked(findings: Iterable[Finding], ledger: Ledger | None) -> tuple[Finding, ...]:
    """Errors, warnings, notes, each by what they can save, and no saving claimed twice."""
    found = list(findings)
    return tuple(sorted(_shared_out(found, ledger) if ledger else found, key=_order))


def _run(rule: Rule[Recording], recording: Recording) -> list[Finding]:
    try:
        return rule(recording)
    except Exception as error:  # noqa: BLE001 one rule's mistake must not hide what others found
        message = f"This could not be checked: {type(error).__name__}: {error}"
        return [Finding(message, severity="note", code=rule.code, rule=rule.name)]


def _shared_out(findings: list[Finding], ledger: Ledger) -> Iterator[Finding]:
    """Let each finding take its saving from the ledger until there is nothing left to take."""
    places = {code: place for place, code in enumerate(CLAIMS)}
    left = {cause: ledger.total(cause) for causes in CLAIMS.values() for cause in causes}
    waits = [each.saving or 0.0 for each in findings if CLAIMS.get(each.code) == ("data",)]
    # Bursts of waiting may be none of the median step's, whose ledger this is.
    left["data"] = max([left["data"], *(wait * ledger.step_ms for wait in waits)])
    for finding in sorted(findings, key=lambda each: places.get(each.code, -1)):
        if finding.saving is None or finding.code not in CLAIMS:
            yield finding
            continue
        taken = 0.0
        for cause in CLAIMS[finding.code]:
            part = min(left[cause], finding.saving * ledger.step_ms - taken)
            left[cause] -= part
            taken += part
        saving = ledger.share(taken)
        yield replace(finding, saving=saving if saving >= TOO_LITTLE else None)


def _order(finding: Finding) -> tuple[int, float, str, int]:
    saving = -1.0 if finding.saving is None else finding.saving
    line = finding.span.line if finding.span else 0
    return RANK[finding.severity], -saving, finding.code, line
