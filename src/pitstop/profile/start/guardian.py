"""Guardian: ends a run whose Pitstop was killed, and all processes that the run has started.

It is a small process in a session of its own, which reads a pipe that only Pitstop writes to. The
first line is the number of the run's process. Where the pipe ends after that, Pitstop is gone: it
kills its guardian itself when a run is over. This file is run as a script, so it imports nothing
of ours.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import psutil

CLEANERS = ("resource_tracker", "torch_shm_manager")  # they tidy up once the others are gone
PATIENCE_S = 2.0  # that cleaners get for it; they need milliseconds
FAREWELL_S = 5.0  # for a script that saves what it has when it is told to end


class Guard:
    """A guardian as seen from here; it does nothing where the system allows no further process."""

    def __init__(self) -> None:
        self._process = _start() if os.name == "posix" else None

    def watch(self, pid: int) -> None:
        """From now on this process ends when we do."""
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.write(f"{pid}\n".encode())
                self._process.stdin.flush()

    def end_run(self) -> None:
        """Have the run ended now; that goes on where we are ended meanwhile."""
        if self._process:
            self._process.communicate()

    def dismiss(self) -> None:
        """The run is over."""
        if self._process:
            self._process.kill()
            self._process.communicate()


@contextlib.contextmanager
def guard() -> Iterator[Guard]:
    """Start a guardian, to be told the number of a process once there is one."""
    guardian = Guard()
    try:
        yield guardian
    finally:
        guardian.dismiss()


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process and all that descend from it, also those with a session of their own."""
    with contextlib.suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return [process]


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill them all, those that tidy up after the others last."""
    found = list(processes)
    cleaners = [each for each in found if _is_cleaner(each)]
    _kill([each for each in found if each not in cleaners])
    _, slow = psutil.wait_procs(cleaners, PATIENCE_S)
    _kill(slow)


def _start() -> "subprocess.Popen[bytes] | None":
    """A guardian; none where the system allows no further process, which the run may not need."""
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-P", __file__],  # -P: no module of the current folder is imported
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C and a closing terminal are not for it
        )
    return None


def _is_cleaner(process: psutil.Process) -> bool:
    try:
        return any(name in word for name in CLEANERS for word in process.cmdline())
    except psutil.Error:
        return False


def _kill(processes: list[psutil.Process]) -> None:
    for each in processes:
        with contextlib.suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(processes, PATIENCE_S)


def _watch() -> None:
    """Wait until Pitstop is gone; then tell its run to end, and soon make it."""
    process = psutil.Process(int(sys.stdin.readline()))
    sys.stdin.read()
    found = family(process)
    with contextlib.suppress(psutil.Error):
        process.terminate()
        process.wait(FAREWELL_S)
    end({*found, *family(process)})


if __name__ == "__main__":
    with contextlib.suppress(psutil.Error, ValueError):  # the run is over, or was never begun
        _watch()
