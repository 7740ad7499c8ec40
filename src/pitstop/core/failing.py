"""Failing: how whatever goes wrong is told in one line, with the traceback kept in a file."""

import contextlib
import errno
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator

from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.core.secrets import masked_text

CURES = {  # of what is wrong with the machine or with what was typed, not with us
    errno.ENOSPC: "make some room, then try again",
    errno.EDQUOT: "make some room, then try again",
    errno.EROFS: "run it where it can write",
    errno.EACCES: "get the right to it, or choose another place",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "these links lead nowhere; give another name",
    errno.EMFILE: "allow more open files (ulimit -n)",
}
ISSUES = "please report it with that file"


@contextlib.contextmanager
def going_on(say: Callable[[str], None]) -> Iterator[None]:
    """Whatever fails in here is said, and what comes after it is done nevertheless."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 the script has run, and its report is worth more
        say(f"pitstop: {describe(error)[1]}")


def describe(error: BaseException) -> tuple[str, str]:
    """Which kind of error it is, and one line; the traceback of the unforeseen goes to a file."""
    match error:
        case PitstopError():
            return "could-not-run", str(error)
        case OSError() if error.errno in CURES:
            where = f"{error.filename}: " if error.filename else ""
            return "machine", f"{printable(where)}{error.strerror}: {CURES[error.errno]}"
        case _:
            what = f"{type(error).__name__}: {error}".removesuffix(": ")
            return "unexpected", f"unexpected {printable(masked_text(what))}; {_kept(error)}"


def _kept(error: BaseException) -> str:
    """Where the traceback is; on a machine without any room, the place that raised it."""
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="pitstop-", suffix=".traceback")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(masked_text(text))
    except OSError:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"raised at {last.filename}:{last.lineno}, and no file could be written: report it"
    return f"its traceback is in {path}: {ISSUES}"
