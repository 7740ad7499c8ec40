"""Written files: what a run writes, and what of it went past the scratch folder.

What was redirected lies in the scratch folder, which is the list of it. What escaped is found in
two ways: Python tells of every file that it opens for writing (an audit hook, in the script's own
process), and the folders that the command names are looked at before and after, since libraries in
other languages tell nobody. Both are done in the first run only; an audit hook cannot be removed.
Caches may be filled: trials leave them alone.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitstop.profile.collect import lines
from pitstop.tune.sandbox.overlay import NEVER, Overlay
from pitstop.tune.sandbox.redirect import caches

BEGIN = "pitstop.tune.sandbox.written_files:begin"
FILE = "escaped.jsonl"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MOST_FILES = 200_000  # looked at before and after; a dataset of millions would take minutes
SKIPPED = {".git", ".pitstop", ".venv", "__pycache__", "node_modules", "site-packages"}
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

Snapshot = dict[str, tuple[int, int]]  # path -> when it was changed, and its size


@dataclass(frozen=True, slots=True)
class Written:
    """What a run did to files, by the names that the script knows them by."""

    redirected: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()  # the user's files that it would have deleted
    escaped: tuple[str, ...] = ()  # written in earnest: cannot be redirected
    programs: tuple[str, ...] = ()  # started by it; what they write is not redirected
    complete: bool = True  # false: too many files to look at them all


def begin(argument: str) -> None:
    """Note in the scratch folder what the script opens for writing elsewhere."""
    wanted = json.loads(argument)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    note = os.open(Path(wanted["folder"]) / FILE, flags, 0o644)
    roots = (*NEVER, *map(os.path.realpath, wanted["alone"]))
    alone = tuple(f"{root}{os.sep}" for root in roots)
    seen: set[str] = set()

    def hook(event: str, given: tuple[Any, ...]) -> None:
        with contextlib.suppress(Exception):  # never in the user's way
            for text in _told(event, given):
                if text not in seen and not f"{text}{os.sep}".startswith(alone):
                    seen.add(text)
                    os.write(note, (json.dumps([event, text]) + "\n").encode())

    sys.addaudithook(hook)


def _told(event: str, given: tuple[Any, ...]) -> Iterator[str]:
    """The program that an event says will be started, or the paths that will be written."""
    if event in PROGRAMS:
        yield os.fsdecode(given[0]).partition(" ")[0]
    elif event == "open":
        path, _, flags = given
        if isinstance(path, str | bytes) and isinstance(flags, int) and flags & WRITES:
            yield _whole(path)
    elif event in EVENTS:
        yield from (_whole(given[place]) for place in EVENTS[event])


def _whole(path: str | bytes) -> str:
    folder, name = os.path.split(os.fsdecode(path))
    return os.path.join(os.path.realpath(folder), name)


def written(scratch: Path, before: Snapshot, after: Snapshot) -> Written:
    """All that is known of what the run with this scratch folder wrote."""
    overlay = Overlay(scratch)
    told = [each for each in lines(scratch / FILE) if isinstance(each, list) and len(each) == 2]
    programs = {str(path) for event, path in told if event in PROGRAMS}
    opened = {str(path) for event, path in told if event not in PROGRAMS}
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    cached = tuple(f"{os.path.realpath(each)}{os.sep}" for each in caches())
    return Written(
        tuple(overlay.written()),
        tuple(overlay.deleted()),
        tuple(sorted(p for p in opened | changed if not f"{p}{os.sep}".startswith(cached))),
        tuple(sorted(programs - {sys.executable})),
        max(len(before), len(after)) < MOST_FILES,
    )


def snapshot(folders: Sequence[Path]) -> Snapshot:
    """Every file below these folders, up to a limit."""
    found: Snapshot = {}
    for folder in folders:
        for root, names, files in os.walk(folder):
            names[:] = [each for each in names if each not in SKIPPED]
            for file in files:
                path = os.path.join(os.path.realpath(root), file)
                try:
                    about = os.lstat(path)
                except OSError:
                    continue
                found[path] = about.st_mtime_ns, about.st_size
                if len(found) >= MOST_FILES:
                    return found
    return found


def folders_of(words: Sequence[str], here: Path) -> list[Path]:
    """Where a command may write: here, its script's folder, and folders among its arguments."""
    found = [here]
    for word in words[1:]:
        path = here / word.rpartition("=")[2]
        if path.is_file() and path.parent not in Path.home().parents:
            found.append(path.parent)
        elif path.is_dir() or (os.sep in word and not path.exists()):
            found.append(path)
    whole = list(dict.fromkeys(each.resolve() for each in found))
    return [each for each in whole if not any(other in each.parents for other in whole)]
