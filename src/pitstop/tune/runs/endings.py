"""Endings: how a run ended, what it warned of, and what its own last words were."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path

import pitstop
from pitstop.compare.record import COMPLAINED, OUR_OWN, Recording

TRACEBACK = "Traceback (most recent call last):"
IGNORED = "Exception ignored"  # what Python says of errors in finalisers, which end nothing
PLACE = re.compile(r'File "(.+)", line (\d+),? in .+')
CRASHED = "Current thread"  # as faulthandler says which one a signal found where
THROWN = "what():"  # as C++ says what nobody caught
OURS = re.escape(str(Path(pitstop.__file__).parent))
LIBRARIES = re.compile(
    rf"<|.*/(site-packages|dist-packages|lib/python3\.\d+)/|{OURS}/(?!workloads/|demo/)"
)
WARNS = " warns: "
WARNING = re.compile(r"(\S.*):(\d+): \w*Warning: (.+)")  # as Python shows one
OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|not enough memory|[Cc]an(no|')t allocate memory|MemoryError"
    r"|ALLOC_FAILED|killed by signal: Killed"
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. An empty ``error`` is a run that came to its end and was recorded."""

    exit_code: int  # negative for a signal
    error: str = ""  # the exception's own line, or what else went wrong
    timed_out: bool = False
    out_of_memory: bool = False
    refused: str = ""  # a path that the sandbox kept it from writing to, which may be why
    warnings: tuple[str, ...] = ()  # with the file and line that each came from


def ending(recording: Recording, wall_s: float, timeout_s: float) -> Ending:
    """How a recorded run ended that was allowed so many seconds."""
    code = recording.run.exit_code or 0
    said = complaints(recording)
    ours = [place for place, line in enumerate(said) if line.startswith(OUR_OWN)]
    if code == -signal.SIGKILL and wall_s >= timeout_s:
        return Ending(code, f"did not end within {timeout_s:.0f} s", timed_out=True)
    if code in {-signal.SIGKILL, 128 + signal.SIGKILL}:
        return Ending(code, "killed by the system, as it does for lack of memory", False, True)
    after = said[ours[-1] + 1 :] if ours else []
    died = code and any(line.endswith(TRACEBACK) for line in after)
    if ours and not died:
        last = said[ours[-1]].removeprefix(OUR_OWN)
        return Ending(code, last, out_of_memory=bool(OUT_OF_MEMORY.search(last)))
    if not code:
        return Ending(0, warnings=_warnings(said))
    error = _signal(code, said) if code < 0 else last_error(said) or f"ended with exit code {code}"
    return Ending(code, error, out_of_memory=bool(OUT_OF_MEMORY.search(error)))


def last_error(lines: Sequence[str]) -> str:
    """The line that names the exception of the last traceback; else the last that is no warning."""
    words = (line for line in reversed(lines) if line.strip() and not line[0].isspace())
    return _raised(lines) or next((line for line in words if not WARNING.fullmatch(line)), "")


def _raised(lines: Sequence[str]) -> str:
    """The line that names the exception of the last traceback, if there is one.

    One that ends in a colon, as torch's compiler has it, is followed by what it is about; one that
    is a name alone, as most of ``assert``, comes with the line that raised it, any other with the
    place in the user's own code.
    """
    for place in reversed(range(len(lines))):
        before = lines[place - 1] if place else ""
        if lines[place].endswith(TRACEBACK) and not before.startswith(IGNORED):
            rest = lines[place + 1 :]
            after = (line for line in rest if line.strip() and not line[0].isspace())
            error = next(after, "")
            frames = rest[: rest.index(error)] if error else []
            if error.isidentifier():
                return f"{error}{_raised_by(frames)}"
            about = f" {next(after, '')}".rstrip() if error.endswith(":") else ""
            return f"{error}{about}{_in_own_code(frames)}"
    return ""


def _raised_by(frames: Sequence[str]) -> str:
    """The last place of a traceback and its source; empty where it has none."""
    for number in reversed(range(len(frames))):
        if place := PLACE.fullmatch(frames[number].strip()):
            source = "".join(f": {line.strip()}" for line in frames[number + 1 : number + 2])
            return f" in {Path(place[1]).name}:{place[2]}{source}"
    return ""


def _in_own_code(frames: Sequence[str]) -> str:
    """The last place of a traceback that is in no library; empty where there is none."""
    places = filter(None, (PLACE.fullmatch(line.strip()) for line in frames))
    own = [each for each in places if not LIBRARIES.match(each[1])]
    return f" ({Path(own[-1][1]).name}:{own[-1][2]})" if own else ""


def _warnings(lines: Sequence[str]) -> tuple[str, ...]:
    found = filter(None, map(WARNING.fullmatch, lines))
    return tuple(f"{Path(each[1]).name}:{each[2]}{WARNS}{each[3]}" for each in found)


def complaints(recording: Recording) -> list[str]:
    """The lines that a run wrote to stderr."""
    path = recording.folder / COMPLAINED
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _signal(code: int, lines: Sequence[str]) -> str:
    """The signal that ended a process, what C++ said of it, and the place in the user's code.

    A backward pass runs in threads of its own, where no line is the user's: then it is the place in
    a library. The signal may have come while an exception ended the process anyway, which then is
    what matters.
    """
    thrown = [line.strip() for line in lines if line.strip().startswith(THROWN)]
    about = f": {thrown[-1].removeprefix(THROWN).strip()}" if thrown else ""
    after = dropwhile(lambda line: not line.startswith(CRASHED), lines)
    frames = [*takewhile(bool, after)][:0:-1]  # written with the innermost first, after its thread
    place = _in_own_code(frames) or _raised_by(frames)
    name = f"ended by signal {-code} ({signal.strsignal(-code)})"
    raised = _raised(lines)
    return f"{name}{about}{place}{f', after {raised}' if raised else ''}"
