"""Hanging: what the stacks of a run without steps say about the lines it waits on."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.core.evidence import Line

FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$')
# Where Python, torch and Pitstop itself live; all other files are the user's.
LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]python3|[/\\]pitstop[/\\]profile[/\\]|^<"
)
IMPORTING = "_find_and_load"  # the frame that a module is imported in
WORKER = "_worker_loop"  # the frame that a loader's worker runs its dataset in


@dataclass(frozen=True, slots=True)
class Waiting:
    """The user's line that the script waits on, and the one that its loader's workers are at."""

    script: Line | None
    worker: Line | None


def waiting_lines(stacks: Iterable[str]) -> Waiting:
    """The innermost lines of the user's in the last stacks that have one."""
    script = worker = None
    for stack in stacks:
        for thread in re.split(r"\n\s*\n|(?m:^)(?=(?:Current t|T)hread 0x)", stack):
            frames = [_line(found) for found in map(FRAME.match, thread.splitlines()) if found]
            functions = [each.function for each in frames]
            if WORKER in functions:
                worker = _first_of_user(frames[: functions.index(WORKER)]) or worker
            elif IMPORTING in functions:
                script = None  # a slow import is no wait
            elif "<module>" in functions:
                script = _first_of_user(frames) or script
    return Waiting(script, worker)


def _line(found: re.Match[str]) -> Line:
    return Line(found["path"], int(found["line"]), found["function"].strip())


def _first_of_user(frames: list[Line]) -> Line | None:
    return next((each for each in frames if not LIBRARY.search(each.path)), None)
