"""Fixing: which fixes go together, and the text of every file after them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pitstop.core.finding import Edit, Finding
from pitstop.scan.edits import apply_edits, check_syntax


@dataclass(frozen=True, slots=True)
class Fixed:
    """The changed texts by file name, and the findings whose fixes are in them."""

    texts: Mapping[str, str]
    applied: tuple[Finding, ...]


def apply_fixes(texts: Mapping[str, str], findings: Iterable[Finding], unsafe: bool) -> Fixed:
    """Apply all fixes that agree; one that overlaps an earlier one waits for the next pass.

    A fix is applied to all its files or to none. A fix that would break a file is left out, and
    so is one that reaches into a file that is not among ``texts``.
    """
    taken: list[tuple[Finding, dict[str, list[Edit]]]] = []
    used: dict[str, list[Edit]] = {}
    for finding in findings:
        edits = _edits_by_file(finding) if may_be_applied(finding, unsafe) else {}
        if not edits or not edits.keys() <= texts.keys():
            continue
        if all(_fits(used.get(name, []), new) for name, new in edits.items()):
            taken.append((finding, edits))
            for name, new in edits.items():
                used.setdefault(name, []).extend(new)
    return _apply(texts, taken)


def may_be_applied(finding: Finding, unsafe: bool) -> bool:
    """Whether a finding has a fix of the kind that is wanted."""
    return finding.fix is not None and (finding.fix.safe or unsafe)


def _edits_by_file(finding: Finding) -> dict[str, list[Edit]]:
    assert finding.fix is not None
    own = finding.span.path if finding.span else ""
    found: dict[str, list[Edit]] = {}
    for edit in finding.fix.edits:
        found.setdefault(edit.path or own, []).append(edit)
    return found


def _fits(used: list[Edit], new: list[Edit]) -> bool:
    """Whether no new edit touches a used one; the same insertion twice, an import, is no clash."""
    return not any(_clash(one, other) for one in used for other in new)


def _clash(one: Edit, other: Edit) -> bool:
    same = (one.start, one.end, one.new) == (other.start, other.end, other.new)
    if same and one.start == one.end and "import " in one.new:
        return False
    return one.start <= other.end and other.start <= one.end


def _apply(texts: Mapping[str, str], taken: list[tuple[Finding, dict[str, list[Edit]]]]) -> Fixed:
    """Apply what was taken; drop the last fix of a file for as long as that file does not parse."""
    while True:
        broken = None
        changed: dict[str, str] = {}
        for name in dict.fromkeys(name for _, edits in taken for name in edits):
            every = [replace(each, path="") for _, edits in taken for each in edits.get(name, [])]
            try:
                changed[name] = apply_edits(texts[name], every)
                check_syntax(changed[name], name)
            except (SyntaxError, ValueError):
                broken = name
                break
        if broken is None:
            return Fixed(changed, tuple(finding for finding, _ in taken))
        last = max(index for index, (_, edits) in enumerate(taken) if broken in edits)
        del taken[last]
