"""Command: one command of ours in a process of its own, told of as it goes, and ended for sure.

A cancelled request ends its process and all that it has started. So does the end of the server,
however it comes: a guardian sees to that.
"""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.text import TextReceiveStream

from pitstop.core.units import minutes
from pitstop.profile.start import guardian
from pitstop.profile.start.guardian import Guard
from pitstop.report.to_agent import MARK

LAST_LINES = 20  # of what a script has said, for an error
Hear = Callable[[int, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command."""

    code: int
    report: str  # in the format for agents; empty: there is none
    said: str  # the last lines on stderr


async def run(words: Sequence[str], folder: Path, limit_s: float, hear: Hear) -> Done:
    """Run ``pitstop WORDS``; ``hear`` gets each line of stderr. Past the limit it is ended."""
    with guardian.guard() as guard:
        process = await anyio.open_process(
            [sys.executable, "-m", "pitstop", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        guard.watch(process.pid)
        assert process.stdout
        assert process.stderr
        printed: list[str] = []
        said: list[str] = []
        ended = False
        try:
            with anyio.move_on_after(limit_s):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_read, process.stdout, printed, _nobody)
                    tasks.start_soon(_read, process.stderr, said, hear)
                await process.wait()
                ended = True
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, guard)
    last = "\n".join(said[-LAST_LINES:])
    if not ended:
        return Done(-1, "", f"it did not end within {minutes(limit_s)}, and was ended\n{last}")
    return Done(process.returncode or 0, _report("\n".join(printed)), last)


async def _read(stream: ByteReceiveStream, lines: list[str], hear: Hear) -> None:
    rest = ""
    async for text in TextReceiveStream(stream, errors="replace"):
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            lines.append(line)
            await hear(len(lines), line)
    if rest:
        lines.append(rest)


async def _nobody(_: int, __: str) -> None:
    """What a script prints is no progress."""


async def _end(process: Process, guard: Guard) -> None:
    """No process is left when this returns, nor soon after where we are ended before."""
    if process.returncode is None:
        await anyio.to_thread.run_sync(guard.end_run)
    await process.aclose()


def _report(printed: str) -> str:
    """Our report, below what a script has printed; commands without one print only text."""
    place = f"\n{printed}".rfind(f"\n{MARK}")
    return printed[place:] if place >= 0 else printed
