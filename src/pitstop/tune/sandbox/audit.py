"""Audit: the script's process notes what it opens for writing past the redirection, and starts.

Python tells of both; such a hook cannot be removed, so it is there in the first run only.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pitstop.tune.sandbox.overlay import NEVER

FILE = "escaped.jsonl"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PROGRAMS = ("subprocess.Popen", "os.system", "os.posix_spawn")
EVENTS: Mapping[str, tuple[int, ...]] = {  # which of what an event tells are paths
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
}


def note_writing(scratch: Path, alone: Sequence[Path]) -> None:
    """Note in the scratch folder what this process opens for writing elsewhere, and starts."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    note = os.open(scratch / FILE, flags, 0o644)
    roots = (*NEVER, *map(os.path.realpath, (scratch, *alone)))
    ours = tuple(f"{root}{os.sep}" for root in roots)
    seen: set[str] = set()

    def hook(event: str, given: tuple[Any, ...]) -> None:
        with contextlib.suppress(Exception):  # never in the user's way
            for text in _told(event, given):
                if text not in seen and not f"{text}{os.sep}".startswith(ours):
                    seen.add(text)
                    os.write(note, (json.dumps([event, text]) + "\n").encode())

    sys.addaudithook(hook)


def _told(event: str, given: tuple[Any, ...]) -> Iterator[str]:
    """The program that an event says will be started, or the paths that will be written."""
    if event in PROGRAMS:
        yield os.fsdecode(given[0]).partition(" ")[0]
    elif event == "open":
        path, _, flags = given
        writes = isinstance(path, str | bytes) and isinstance(flags, int) and flags & WRITES
        if writes and not os.path.isdir(path):  # tempfile names the folder, and opens a file in it
            yield _whole(path)
    elif event in EVENTS:
        yield from (_whole(given[place]) for place in EVENTS[event])


def _whole(path: str | bytes) -> str:
    folder, name = os.path.split(os.fsdecode(path))
    return os.path.join(os.path.realpath(folder), name)
