"""Merge: a suspicion from the source meets what the run measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pitstop.core.finding import Finding, Fix, Span

Place = tuple[str, int]  # absolute path and line
CLEARED_BELOW = 0.01  # of the step: the line runs, and changing it would not be noticed


@dataclass(frozen=True, slots=True)
class Merged:
    """What is left to say, and which suspicions the run has cleared."""

    findings: tuple[Finding, ...]
    cleared: tuple[Finding, ...] = ()


def merge(
    suspected: Sequence[Finding], measured: Sequence[Finding], seen: Mapping[Place, float]
) -> Merged:
    """Findings of a run, then suspicions that it did not settle.

    ``seen`` has the share of the step of every line that the run was seen at. A suspicion whose
    code the run found inside its lines is confirmed: the run's finding, with the source's fix.
    One whose lines ran for less than a hundredth of the step is cleared. Else it stays suspected.
    """
    fixes = {id(each): _fix_for(each, suspected) for each in measured}
    confirmed = [replace(each, fix=each.fix or fixes[id(each)]) for each in measured]
    cleared, open_ = [], []
    for each in suspected:
        if any(_is_about(found, each) for found in measured):
            continue
        share = _share(each.span, seen)
        if share is not None and share < CLEARED_BELOW:
            cleared.append(each)
        else:
            open_.append(replace(each, confidence="suspected"))
    return Merged((*confirmed, *open_), tuple(cleared))


def _fix_for(finding: Finding, suspected: Sequence[Finding]) -> Fix | None:
    return next((each.fix for each in suspected if each.fix and _is_about(finding, each)), None)


def _is_about(finding: Finding, suspicion: Finding) -> bool:
    """Whether a run's finding lies inside the lines of a suspicion of the same code."""
    here, there = finding.span, suspicion.span
    return (
        finding.code == suspicion.code
        and here is not None
        and there is not None
        and here.path == there.path
        and there.line <= here.line <= there.end_line
    )


def _share(span: Span | None, seen: Mapping[Place, float]) -> float | None:
    """The share of the step spent at the lines of a span; nothing where none of them was seen."""
    if span is None:
        return None
    lines = range(span.line, span.end_line + 1)
    found = [seen[span.path, line] for line in lines if (span.path, line) in seen]
    return sum(found) if found else None
