"""Rank: run every rule on a recording, count no millisecond twice, and put the worst first."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pitstop.diagnose.rules
from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Severity
from pitstop.core.ledger import WAITS, Cause, Ledger, Row
from pitstop.core.rule import Rule, load_rules
from pitstop.diagnose.recording import Recording

RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
TOO_LITTLE = 0.005  # of the step: what is left of a claim after others is no saving of its own
ALL_OF_IT = 0.99  # of what was claimed; the rest is rounding
# Of rules that claim the same rows, the one that stands first says best what to do, and keeps its
# saving; the others get what is left. Rules that are not named here come last.
FIRST = (
    *("PIT613", "PIT602", "PIT608", "PIT603", "PIT508", "PIT614", "PIT610", "PIT601"),  # needless
    *("PIT113", "PIT102", "PIT101", "PIT110"),  # the wait for data
    *("PIT204", "PIT203", "PIT103", "PIT201", "PIT205", "PIT208", "PIT212", "PIT209", "PIT404"),
    *("PIT206", "PIT604", "PIT301", "PIT302", "PIT605", "PIT615", "PIT408", "PIT606"),  # kernels
)

Key = tuple[Cause, str, Line, str]  # of a row: no two rows of a ledger have the same


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
    """Let each finding take its saving from the rows that it claims; a row is given out once.

    What claims no rows promises nothing of a step. Notes take what warnings leave.
    """
    left = {_key(row): row.ms for row in ledger.rows}
    for row in (row for each in findings for row in each.claims if row.cause == "data"):
        left[_key(row)] = max(row.ms, left.get(_key(row), 0.0))  # bursts: not in the median step
    for finding in sorted(findings, key=_turn):
        if finding.saving is None or finding.per != "step":
            yield finding
            continue
        wanted_ms = finding.saving * ledger.step_ms
        taken: list[Row] = []
        for row in finding.claims:
            whole_ms = _whole_ms(row, left.get(_key(row), 0.0), ledger)
            part = min(1.0, wanted_ms / whole_ms) if whole_ms else 0.0
            if part > 0:
                ms = left[_key(row)] * part
                left[_key(row)] -= ms
                wanted_ms -= whole_ms * part
                taken += [replace(row, ms=ms), Row("core", whole_ms * part - ms)]
        saving = ledger.share(sum(row.ms for row in taken))
        whole = taken and saving >= ALL_OF_IT * finding.saving
        promised = saving if whole or saving >= TOO_LITTLE else None
        yield replace(finding, saving=promised, claims=tuple(_by_cause(taken)))


def _whole_ms(row: Row, ms: float, ledger: Ledger) -> float:
    """What goes with so much of a row: work has its wait for a core."""
    return ms if row.cause in WAITS else ledger.with_waits(ms)


def _key(row: Row) -> Key:
    return row.cause, row.what, row.where, row.module


def _by_cause(rows: Iterable[Row]) -> Iterator[Row]:
    """What a finding was given of each cause: hundreds of rows may be a model's."""
    sums: dict[Cause, float] = {}
    for row in rows:
        sums[row.cause] = sums.get(row.cause, 0.0) + row.ms
    return (Row(cause, ms) for cause, ms in sums.items() if ms > 0)


def _turn(finding: Finding) -> tuple[int, int]:
    """Who takes first."""
    known = finding.code in FIRST
    return RANK[finding.severity], FIRST.index(finding.code) if known else len(FIRST)


def _order(finding: Finding) -> tuple[int, float, str, int]:
    saving = -1.0 if finding.saving is None else finding.saving
    line = finding.span.line if finding.span else 0
    return RANK[finding.severity], -saving, finding.code, line
