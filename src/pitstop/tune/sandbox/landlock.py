"""Landlock: the Linux kernel refuses a process, and all that it starts, to write outside folders.

It needs no rights and cannot be taken back. Reading stays free. It knows files, not their owners,
permissions and times: who may change those may change them still. See ``man 7 landlock``.

This file is also a program, which shuts itself in and then becomes another one: it needs nothing
that is not in Python itself.
"""

import ctypes
import errno
import json
import os
import platform
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls, on every processor
VERSION = 1  # a flag: do nothing but tell the version
PATH_BENEATH = 1  # the kind of a rule: a folder and all below it, or a file
NO_NEW_PRIVILEGES = 38  # of prctl: programs such as sudo gain none
OLDEST = 2  # version, of Linux 5.19: before it, nothing could be renamed from folder to folder
WRITE_FILE, TRUNCATE, REFER = 1 << 1, 1 << 14, 1 << 13
CHANGES_IN_FOLDERS = sum(1 << bit for bit in range(4, 13))  # remove and make, of every kind
WHOLE = WRITE_FILE | CHANGES_IN_FOLDERS | REFER  # what version 2 knows
WITH_TRUNCATE = 3  # version, of Linux 6.2
DISKS = {"block", "disk", "mapper"}  # folders of /dev


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def missing() -> str:
    """Why the kernel cannot refuse writes here; empty where it can."""
    if sys.platform != "linux":
        return f"{platform.system()} has no Landlock"
    version, problem = _version()
    if version >= OLDEST:
        return ""
    if problem == errno.EPERM:
        return "this container forbids Landlock"
    if problem == errno.EOPNOTSUPP:
        return "Landlock is switched off in this kernel"
    return f"this kernel ({platform.release()}) has no Landlock of Linux 5.19 or newer"


def wrapper_command(folders: Sequence[Path]) -> tuple[str, ...]:
    """What to put before a command, so that it can write to these folders only."""
    own = sys.executable, "-I", "-S", __file__  # nothing of the user's is imported
    return (*own, json.dumps([str(each) for each in folders]))


def restrict(folders: Sequence[Path]) -> None:
    """From now on nothing can be written but to these folders and files, and to devices."""
    rights = WHOLE | (TRUNCATE if _version()[0] >= WITH_TRUNCATE else 0)
    ruleset = _Ruleset(rights)
    descriptor = _call(CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    try:
        for place in (*_devices(), Path("/proc"), *folders):
            _allow(descriptor, place, rights)
        _checked(_library().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _call(RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def _allow(ruleset: int, place: Path, rights: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there cannot be written to
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= WRITE_FILE | TRUNCATE
        beneath = _Beneath(rights, opened)
        _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(beneath), 0)
    finally:
        os.close(opened)


def _devices() -> Iterator[Path]:
    """All in ``/dev``, which is no file, but disks."""
    for path in Path("/dev").iterdir():
        try:
            kind = path.stat().st_mode
        except OSError:
            continue
        inside = path.resolve().is_relative_to("/dev") or path.name == "shm"
        if inside and path.name not in DISKS and not stat.S_ISBLK(kind):
            yield path


def _version() -> tuple[int, int]:
    """The version of Landlock and 0, or -1 and the number of the error."""
    found = _library().syscall(CREATE_RULESET, None, 0, VERSION)
    return found, ctypes.get_errno() if found < 0 else 0


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(*arguments: object) -> int:
    return _checked(_library().syscall(*arguments))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result


def _shut_in(folders: str, command: list[str]) -> None:
    restrict([Path(each) for each in json.loads(folders)])
    os.execvp(command[0], command)  # noqa: S606 as it was typed


if __name__ == "__main__":
    _shut_in(sys.argv[1], sys.argv[2:])
