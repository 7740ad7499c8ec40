"""Suppressions: comments that tell a rule to be quiet, here or in the whole file."""

import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.core.finding import Finding
from pitstop.scan.selection import matches

OURS = re.compile(
    r"#\s*pitstop:\s*(?P<scope>ignore-file|ignore)(?:\[(?P<codes>[^\]]*)\])?", re.IGNORECASE
)
UNUSED = "PIT900"  # the rule about comments that silence nothing
NOQA = re.compile(r"#\s*noqa(?P<colon>:\s*(?P<codes>[\w, -]+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment. Without codes it silences every rule."""

    line: int  # that it speaks of: its own, or the next when it stands alone
    codes: tuple[str, ...]
    start: int  # offsets of the comment, for the fix that removes it
    end: int
    whole_file: bool = False
    ours: bool = True  # False: a noqa, which other linters may need

    def covers(self, finding: Finding) -> bool:
        """Whether this comment silences a finding; one about itself must be named."""
        if finding.code == UNUSED and UNUSED not in self.codes:
            return False
        if self.codes and not any(matches(code, finding.code, finding.rule) for code in self.codes):
            return False
        if self.whole_file or finding.span is None:
            return self.whole_file
        return self.line in (finding.span.line, finding.span.end_line)


def read_suppressions(text: str) -> list[Suppression]:
    """The suppressions in a Python file's comments; what looks like one in a string is none."""
    if "pitstop:" not in text and "noqa" not in text.lower():
        return []
    starts = [0, *(match.end() for match in re.finditer(r"\n", text))]
    found: list[Suppression] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                offset = starts[token.start[0] - 1] + token.start[1]
                alone = not token.line[: token.start[1]].strip()
                found += _read_comment(token.string, token.start[0] + alone, offset)
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # it parsed, so the tokenizer is only unhappy about the very end
    return found


def _read_comment(comment: str, line: int, offset: int) -> Iterable[Suppression]:
    if match := OURS.search(comment):
        whole = match["scope"].lower() == "ignore-file"
        start, end = offset + match.start(), offset + match.end()
        yield Suppression(line, _codes(match["codes"]), start, end, whole)
    elif match := NOQA.search(comment):
        codes = tuple(code for code in _codes(match["codes"]) if code.upper().startswith("PIT"))
        if codes or not match["colon"]:
            yield Suppression(line, codes, offset, offset + len(comment), ours=False)


def _codes(text: str | None) -> tuple[str, ...]:
    return tuple(code for code in re.split(r"[\s,]+", text or "") if code)


def without_suppressed(
    findings: Iterable[Finding], suppressions: Iterable[Suppression]
) -> list[Finding]:
    """The findings that no comment silences."""
    comments = list(suppressions)
    return [each for each in findings if not any(comment.covers(each) for comment in comments)]
