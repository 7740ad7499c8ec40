"""Child processes: those that a trial started, however far removed, and what they leave behind.

All of them inherit one variable of the environment, by which they are known even after their
parents have gone and they have made themselves a session of their own.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import psutil

from pitstop.profile.start import guardian

VARIABLE = "PITSTOP_TRIAL"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 where torch's workers put their batches, on Linux
TORCH_FILE = re.compile(r"torch_(\d+)_")


def end(tag: str) -> set[int]:
    """Kill every process of a trial, those that tidy up last; return their numbers."""
    found = members(tag)
    guardian.end(found)
    guardian.end(members(tag))  # what they have started meanwhile
    return {each.pid for each in found}


def members(tag: str) -> list[psutil.Process]:
    """The living processes of a trial; never this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # it ended, or is not ours to ask
            if process.environ().get(VARIABLE) == tag and process.pid != os.getpid():
                found.append(process)
    return found


def clean_shared_memory(pids: Iterable[int]) -> None:
    """Delete what workers that were killed left in shared memory."""
    dead = {pid for pid in pids if not psutil.pid_exists(pid)}
    for path in SHARED_MEMORY.glob("torch_*") if SHARED_MEMORY.is_dir() else ():
        named = TORCH_FILE.match(path.name)
        if named and int(named.group(1)) in dead:
            with contextlib.suppress(OSError):
                path.unlink()
