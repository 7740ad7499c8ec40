"""Screen: what a person reads first: one line for each cause, the dearest on top."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pitstop.core.finding import Finding
from pitstop.core.report import Report
from pitstop.core.rule import Rule
from pitstop.core.units import count
from pitstop.scan.source import Source

SCREENFUL = 24  # lines below the verdict that fit without scrolling
PLACES = 3  # named of those that are folded; --all has the others
# Code that is not the project's own, or that does not run when it matters.
ASIDE = re.compile(
    r"(?:^|/)(?:third_?party|3rd_?party|vendor(?:ed)?|extern(?:al)?s?|submodules|tests?|docs"
    r"|examples?|demos?|tools|benchmarks?)/|(?:^|/)(?:test_|demo|export)"
)


@dataclass(frozen=True, slots=True)
class Group:
    """Findings with one cause; the one to read first comes first."""

    findings: tuple[Finding, ...]
    small: bool

    @property
    def first(self) -> Finding:
        """The one that is shown."""
        return self.findings[0]


def first_screen(report: Report, rules: Iterable[Rule[Source]]) -> Report:
    """The same report with one finding for each cause, the dearest first, at most a screenful."""
    small = {rule.code for rule in rules if rule.worth == "small"}
    groups = _groups(_one_for_each_statement(report.findings, small), small)
    if not groups:
        return report
    shown, rest = groups[:SCREENFUL], groups[SCREENFUL:]
    hidden = sum(len(each.findings) for each in rest)
    more = (f"{count(hidden, 'finding')} more: --all lists every one",) if rest else ()
    return replace(
        report,
        verdict=f"{_numbers(groups)}: {report.verdict[0].lower()}{report.verdict[1:]}",
        findings=tuple(_shown(each) for each in shown),
        notes=(*report.notes, *more),
    )


def _numbers(groups: Sequence[Group]) -> str:
    likely = sum(not each.small for each in groups)
    return f"{count(likely, 'cause')} likely to cost you, {len(groups) - likely} small"


def _rank(finding: Finding, small: set[str]) -> tuple[bool, bool, bool, bool, str, int]:
    """Errors, then what costs in each step of the project's own code, then what is certain."""
    path = finding.span.path if finding.span else ""
    line = finding.span.line if finding.span else 0
    minor = _is_small(finding, small)
    in_a_loop = "loop" in finding.message
    return (minor, finding.severity != "error", not in_a_loop, _unsure(finding), path, line)


def _is_small(finding: Finding, small: set[str]) -> bool:
    path = finding.span.path if finding.span else ""
    minor = finding.code in small or finding.severity == "note" or finding.per != "step"
    return bool(ASIDE.search(path)) or (minor and finding.severity != "error")


def _unsure(finding: Finding) -> bool:
    return finding.confidence == "suspected"


def _one_for_each_statement(findings: Sequence[Finding], small: set[str]) -> list[Finding]:
    """The dearest of each line and subject: a loader that is told of its workers is told enough."""
    found: dict[tuple[str, str], Finding] = {}
    for each in sorted(findings, key=lambda each: _rank(each, small)):
        span = each.span
        found.setdefault((span.place, each.code[:4]) if span else ("", ""), each)
    return list(found.values())


def _groups(findings: Sequence[Finding], small: set[str]) -> list[Group]:
    """By rule and what it says before its reason in brackets; in the order of their first."""
    found: dict[tuple[str, str, bool], list[Finding]] = {}
    for each in findings:
        said = each.message.partition(" (")[0]
        said = re.sub(r"`[^`]*`", "", said)  # names differ from copy to copy
        found.setdefault((each.code, said, _is_small(each, small)), []).append(each)
    return [Group(tuple(each), key[2]) for key, each in found.items()]


def _shown(group: Group) -> Finding:
    first, *others = group.findings
    words = [first.message, f"({first.confidence})"]
    if others:
        places = [each.span.place for each in others if each.span]
        dots = ", ..." if len(places) > PLACES else ""
        words.append(f"And {len(others)} more like it: {', '.join(places[:PLACES])}{dots}")
    if first.severity == "error":
        words.insert(0, "Error:")
    return replace(first, message=" ".join(words))
