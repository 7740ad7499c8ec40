"""Record: run a command once, out of sight, and read back what was recorded."""

import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence
from pitstop.core.private import ALONE, private
from pitstop.profile.read import runs
from pitstop.profile.read.collect import collect
from pitstop.profile.start import launch
from pitstop.profile.start.options import UNKNOWN, Options, StepEnds

LAST_LINES = 5  # of stderr, enough for the exception and the line that raised it
OUR_OWN = "pitstop: "  # how the recorder begins the one line that it may write
PRINTED, COMPLAINED = "stdout.txt", "stderr.txt"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded run: how it was started and ended, and what was seen of it."""

    folder: Path
    run: runs.Run
    about: runs.About
    evidences: tuple[Evidence, ...]

    def printed(self) -> list[str]:
        """The lines the script printed; none where they went to the terminal."""
        return _lines(self.folder / PRINTED)

    def stderr_tail(self) -> list[str]:
        """The last lines the script wrote to stderr."""
        return [line for line in _lines(self.folder / COMPLAINED) if line.strip()][-LAST_LINES:]


def words(command: str) -> list[str]:
    """A quoted command as a list of words; a script may stand alone, without its ``python``."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise PitstopError(f"{command!r}: {error}; check its quotes") from None
    if not found:
        raise PitstopError("an empty command: quote it as you would type it")
    launch.refuse_masked(found)
    if found[0].endswith(".py") or found[0] == "-m":
        return [sys.executable, *found]
    if shutil.which(found[0]) is None:
        raise PitstopError(f"{found[0]}: no such command; quote it as you would type it")
    return found


def record(  # noqa: PLR0913, PLR0917 what a run may be asked for
    command: Sequence[str],
    folder: Path,
    steps: int | None = None,
    warmup: int = 3,
    inspect: int = 0,
    also: tuple[tuple[str, str], ...] = (),
    apart: launch.IsolatedRun | None = None,
    step_ends: StepEnds = UNKNOWN,
    headspace: bool = False,
) -> Recording:
    """Run a command to its end in a fresh process, recorded in ``folder``, and say how it went.

    Its output goes to files of that folder; ``also`` is called in its process first. A command
    that fails is a recording with that exit code; Ctrl-C is a ``KeyboardInterrupt`` once the
    command has ended.
    """
    folder.mkdir(ALONE, parents=True, exist_ok=True)
    run = runs.begun(command, warmup)
    store.save(folder / "run.json", run)
    options = Options(
        folder=str(folder.absolute()),
        steps=steps,
        step_ends=step_ends,
        warmup=warmup,
        inspect=inspect,
        also=also,
        headspace=headspace,
    )
    interrupts: list[None] = []
    with (
        open(folder / PRINTED, "wb", opener=private) as printed,
        open(folder / COMPLAINED, "wb", opener=private) as complained,
    ):
        code = launch.run(
            list(command), options, (printed, complained), lambda: interrupts.append(None), apart
        )
    store.save(folder / "run.json", replace(run, exit_code=code))
    if interrupts:
        raise KeyboardInterrupt
    return load(folder)


def load(folder: Path) -> Recording:
    """A recording of before."""
    run = runs.load(folder)
    return Recording(folder, run, runs.about(folder), collect(folder, run.warmup))


def check(recording: Recording, name: str) -> Recording:
    """The recording itself; a run that failed, or could not be recorded, is an error."""
    code = recording.run.exit_code
    if code:
        ended = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.strsignal(-code)})"
        what = f"{name} ended with {ended}: make it run by itself first"
        raise PitstopError(what, *recording.stderr_tail())
    for line in _lines(recording.folder / COMPLAINED):
        if line.startswith(OUR_OWN):
            raise PitstopError(f"{name} was not recorded to its end: {line.removeprefix(OUR_OWN)}")
    return recording


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()
