"""Parsing: a file's text as a Source, or one line that says why it is none."""

import re
import warnings
from functools import cache

from pitstop.scan.decode import UnreadableError
from pitstop.scan.source import Source

PYTHON_2 = re.compile(
    r"^\s*(?:print\s+[\"'\w%]|except\s+[\w.()]+\s*,\s*\w+\s*:|raise\s+\w+\s*,|exec\s+[\"'\w])",
    re.MULTILINE,
)


@cache  # the caller says what is worth keeping, and clears it
def parse_and_keep(text: str, path: str) -> Source:
    """A parsed file that is kept for the second pass."""
    return parse(text, path)


def parse(text: str, path: str) -> Source:
    """A parsed file; raises ``UnreadableError`` with the reason when it is not Python 3."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a bad escape in the user's string is not our news
            return Source(text, path)
    except SyntaxError as error:
        raise UnreadableError(_reason(text, error)) from None
    except (RecursionError, MemoryError):
        raise UnreadableError("nested too deeply to be parsed") from None
    except ValueError as error:
        raise UnreadableError(f"cannot be parsed: {error}") from None


def _reason(text: str, error: SyntaxError) -> str:
    line = error.lineno or 1
    around = "\n".join(text.splitlines()[max(line - 2, 0) : line])
    if "Missing parentheses" in (error.msg or "") or PYTHON_2.search(around):
        return f"Python 2 syntax at line {line}"
    return f"syntax error at line {line}: {error.msg}"
