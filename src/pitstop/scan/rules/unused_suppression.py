"""PIT900 unused-suppression."""

from collections.abc import Iterator

import pitstop.scan.rules
from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.core.rule import load_rules, rule
from pitstop.scan.source import Source, is_config
from pitstop.scan.suppress import UNUSED, Suppression, read_suppressions


@rule(UNUSED, worth="small")
def unused_suppression(source: Source) -> Iterator[Finding]:
    """A comment suppresses a finding that is not there.

    It was mended, or the code is misspelt. Left in place, the comment would hide the next
    finding on that line.

    Bad:
        frames = load(path)  # pitstop: ignore[PIT202]

    Good:
        frames = load(path)
    """
    if "pitstop:" not in source.text or is_config(source.path):
        return
    comments = [each for each in read_suppressions(source.text) if each.ours]
    if not comments:
        return
    rules = [each for each in load_rules(pitstop.scan.rules) if each.code != UNUSED]
    findings = [finding for each in rules for finding in each(source)]
    for comment in comments:
        if not any(comment.covers(finding) for finding in findings):
            what = ", ".join(comment.codes) or "anything"
            message = f"This comment suppresses {what}, and there is nothing to suppress."
            yield Finding(message, _span(source, comment), fix=_removal(source, comment))


def _span(source: Source, comment: Suppression) -> Span:
    lines = source.lines
    return Span(source.path, *lines.position(comment.start), *lines.position(comment.end))


def _removal(source: Source, comment: Suppression) -> Fix:
    """Drop the comment with the spaces before it, unless more is said after it."""
    start = comment.start
    while start and source.text[start - 1] in " \t":
        start -= 1
    line_end = source.text.find("\n", comment.end)
    rest = source.text[comment.end : line_end if line_end >= 0 else None].strip()
    edit = Edit(comment.start, comment.end, "#") if rest else Edit(start, comment.end, "")
    return Fix("Remove the comment", (edit,), safe=True)
