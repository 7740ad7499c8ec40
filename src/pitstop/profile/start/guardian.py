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
from collections.abc import Callable, Iterable, Iterator

import psutil

CLEANERS = ("resource_tracker", "torch_shm_manager")  # they tidy up once the others are gone
PATIENCE_S = 2.0  # that cleaners get for it; they need milliseconds
FAREWELL_S = 5.0  # for a script that saves what it has when it is told to end


@contextlib.contextmanager
def guard() -> Iterator[Callable[[int], None]]:
    """Start a guardian, which is told the number of the process once there is one."""
    guardian = _start() if os.name == "posix" else None

    def tell(pid: int) -> None:
        if guardian and guardian.stdin:
            with contextlib.suppress(OSError):
                guardian.stdin.write(f"{pid}\n".encode())
                guardian.stdin.flush()

    try:
        yield tell
    finally:
        if guardian:
            guardian.kill()
            guardian.communicate()


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
