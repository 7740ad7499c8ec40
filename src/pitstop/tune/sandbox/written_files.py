"""Written files: what the first run wrote, and what of it was refused.

What was redirected lies in the scratch folder, which is the list of it. What a process of Python
opened elsewhere it has noted itself. Caches may be filled: trials leave them alone.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pitstop.profile.read.collect import lines
from pitstop.tune.sandbox.audit import FILE, PROGRAMS
from pitstop.tune.sandbox.caches import caches
from pitstop.tune.sandbox.overlay import Overlay
from pitstop.tune.sandbox.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Written:
    """What a run did to files, by the names that the script knows them by."""

    redirected: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()  # the user's files that it would have deleted
    refused: tuple[str, ...] = ()  # what it was not let write
    programs: tuple[str, ...] = ()  # started by it; what they write is not redirected


def written(box: Sandbox, refused: Sequence[str] = ()) -> Written:
    """All that is known of what the run in this sandbox wrote; some refusals are known already."""
    overlay = Overlay(box.scratch)
    told = [each for each in lines(box.scratch / FILE) if isinstance(each, list) and len(each) == 2]
    programs = {str(path) for event, path in told if event in PROGRAMS}
    opened = {str(path) for event, path in told if event not in PROGRAMS}
    cached = tuple(f"{os.path.realpath(each)}{os.sep}" for each in caches())
    past = sorted(each for each in opened if not f"{each}{os.sep}".startswith(cached))
    return Written(
        tuple(overlay.written()),
        tuple(overlay.deleted()),
        tuple(dict.fromkeys([*past, *refused])),
        tuple(sorted(programs - {sys.executable})),
    )
