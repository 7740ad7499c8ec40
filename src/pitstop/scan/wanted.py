"""Wanted: the findings that are told: nobody silences them, and no baseline knows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pitstop.core.finding import Finding
from pitstop.scan.baseline import Baseline, Entry, entry_of
from pitstop.scan.notebook import Notebook, in_cells
from pitstop.scan.selection import Selection
from pitstop.scan.source import is_config
from pitstop.scan.suppress import read_suppressions, without_suppressed


@dataclass(frozen=True, slots=True)
class Told:
    """Findings in order of place, and what all of them, the known ones too, are known by."""

    findings: list[Finding]
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user wants to hear of."""

    selection: Selection
    notebooks: Mapping[str, Notebook] = field(default_factory=dict)
    baseline: Baseline = field(default_factory=Baseline)

    def of(self, findings: Iterable[Finding], texts: Mapping[str, str]) -> Told:
        """Those that are wanted, in order of place; a notebook's by cell and line."""
        loud = sorted(self._loud(findings, texts), key=_place)
        entries = tuple(entry_of(each, texts) for each in loud)
        new = zip(loud, self.baseline.split(entries), strict=True)
        return Told([in_cells(each, self.notebooks) for each, is_new in new if is_new], entries)

    def _loud(self, findings: Iterable[Finding], texts: Mapping[str, str]) -> list[Finding]:
        """Without those that a comment or the configuration silences."""
        by_file: dict[str, list[Finding]] = {}
        for finding in findings:
            path = finding.span.path if finding.span else ""
            if not self.selection.silences(path, finding.code, finding.rule):
                by_file.setdefault(path, []).append(finding)
        found: list[Finding] = []
        for path, some in by_file.items():
            comments = [] if is_config(path) else read_suppressions(texts.get(path, ""))
            found += without_suppressed(some, comments)
        return found


def _place(finding: Finding) -> tuple[str, int, int, str]:
    span = finding.span
    return (span.path, span.line, span.column, finding.code) if span else ("", 0, 0, finding.code)
