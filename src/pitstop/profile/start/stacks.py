"""Stacks: where a run is that has not finished a step, asked from outside.

The profiled process answers a real-time signal by writing all its stacks to a file; that costs
nothing until it is asked, needs no thread, and forked workers inherit it. The file exists until
the first step is finished: as long as it does, the launching process asks now and then.
"""

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from pitstop.core.private import ALONE_FILE
from pitstop.core.reading import read_regular

TOLD = ".told"  # the file's ending when nobody is to ask any more
LARGEST_BYTES = 1_000_000  # a stack of each thread of a process; what is larger is not ours
PATIENCE_SECONDS = 20  # before the first question; each later one waits twice as long
ANSWER_SECONDS = 0.5  # that a process may take before the next is asked
QUESTION = getattr(signal, "SIGRTMIN", 0) + 11 if hasattr(signal, "SIGRTMIN") else 0


def answer_questions(folder: Path) -> Path | None:
    """In the profiled process: be ready to write the stacks; return the file that says so."""
    if not QUESTION or signal.getsignal(QUESTION) is not signal.SIG_DFL:
        return None  # another system, or a script that uses this signal itself
    path = folder / f"stacks-{os.getpid()}.txt"
    try:
        open_file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, ALONE_FILE)
    except OSError:
        return None
    faulthandler.register(QUESTION, file=open_file)  # a number: nobody warns that it is not closed
    return path


def stop_answering(path: Path | None) -> None:
    """A step is finished, or the script is: nobody is to ask any more; an answer is kept."""
    if path and path.stem.endswith(f"-{os.getpid()}"):  # not in a fork: the parent may yet hang
        with contextlib.suppress(OSError):
            path.rename(path.with_suffix(TOLD)) if path.stat().st_size else path.unlink()


def ask(folder: Path) -> None:
    """In the launching process: let every process that still has no step write its stacks."""
    import psutil  # noqa: PLC0415 the profiled process imports this module too, and may lack it

    for path in folder.glob("stacks-*.txt"):
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            process = psutil.Process(int(path.stem.removeprefix("stacks-")))
            for each in (process, *process.children(recursive=True)):
                if _answers(each.pid):
                    size = path.stat().st_size
                    os.kill(each.pid, QUESTION)
                    _wait_for_more(path, size)  # all write to this file: one after the other


def answers(folder: Path) -> Iterator[str]:
    """The stacks that were written, one text for each process that was asked."""
    for path in sorted(folder.glob("stacks-*")):
        with contextlib.suppress(OSError):
            text = read_regular(path, LARGEST_BYTES).decode("utf-8", "replace").strip()
            if text:
                yield text


def clean(folder: Path) -> None:
    """Remove the files that hold no answer."""
    for path in folder.glob("stacks-*.txt"):
        with contextlib.suppress(OSError):
            if not path.stat().st_size:
                path.unlink()


def _wait_for_more(path: Path, size: int) -> None:
    """Until an answer stands in the file and grows no more, or its process takes too long."""
    end = time.monotonic() + ANSWER_SECONDS
    last = size
    while time.monotonic() < end:
        time.sleep(0.02)
        now = path.stat().st_size
        if last == now > size:
            return
        last = now


def _answers(pid: int) -> bool:
    """Whether a process catches the signal; one that does not would die of it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (QUESTION - 1) & 1)
    return False
