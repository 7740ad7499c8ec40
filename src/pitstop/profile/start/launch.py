"""Launch: start the user's command as if typed, with the recorder injected, and stand aside.

The command runs in a process of its own with our terminal, input and environment. All that
differs is one folder in front of ``PYTHONPATH``, which ``sitecustomize`` removes again. From here
the run is watched from outside: memory of the process and its children, sensors of the GPUs.
"""

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any

import psutil

from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.core.private import ALONE, own_folder
from pitstop.core.secrets import is_masked
from pitstop.profile.hooks.attempt import attempt, complain
from pitstop.profile.record.host import HostMeter
from pitstop.profile.start import guardian, reached, stacks
from pitstop.profile.start.options import Options
from pitstop.profile.start.program import is_launcher

SAMPLE_SECONDS = 0.5
FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True, slots=True)
class IsolatedRun:
    """A run that is ours, not the user's: it has a session of its own, and ends in time."""

    timeout_s: float = math.inf  # then it is killed
    environment: Mapping[str, str] = field(default_factory=dict)  # in addition to our own
    wrapper_command: tuple[str, ...] = ()  # a program of ours that becomes the command
    folder: Path | None = None  # where it begins; null: where we are


def command_line(target: tuple[str, ...], module: bool, processes: int | None) -> list[str]:
    """The command to start for ``SCRIPT ARGS``, ``-m MODULE ARGS`` or ``torchrun ... SCRIPT``."""
    if not target:
        raise PitstopError(
            "no script given: end the command with SCRIPT [ARGS ...], or -m MODULE [ARGS ...]"
        )
    refuse_masked(target)
    command = not module and _is_command(target[0])
    if not (module or command or Path(target[0]).is_file()):
        what = "a folder" if Path(target[0]).is_dir() else "no such file"
        raise PitstopError(f"{target[0]}: {what}; give a script, a command, or -m MODULE")
    if not processes:
        return [*([] if command else [sys.executable]), *(["-m"] if module else []), *target]
    if command and is_launcher(target[0]):
        raise PitstopError(f"{target[0]} starts the processes itself: leave --nproc-per-node out")
    how = ["--no-python"] if command else ["-m"] if module else []
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    return [*torchrun, *how, *target]


def refuse_masked(words: Sequence[str]) -> None:
    """A command copied from a report lacks its secrets; a script must not get the mask instead."""
    if is_masked(words):
        raise PitstopError("*** stands for a secret that was not kept: type its value in its place")


def _is_command(name: str) -> bool:
    """Whether this is a program that starts by itself, as a package's console script does."""
    is_script = name.endswith(".py") or (Path(name).name == name and Path(name).is_file())
    return not is_script and shutil.which(name) is not None


def run(
    command: list[str],
    options: Options,
    output: tuple[IO[bytes], IO[bytes]] | None = None,
    on_interrupt: Callable[[], None] = lambda: None,
    apart: IsolatedRun | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    """Run the command to its end; return its exit code, negative for a signal.

    With ``output`` it runs out of sight: its stdout and stderr go there, and nobody types. A
    command that runs apart gets no signals: what ends us kills it, and counts as Ctrl-C. While it
    runs, ``meanwhile`` is called twice a second.
    """
    limits = apart or IsolatedRun()
    kills = apart is not None
    with guardian.guard() as guard, _signals_passed_on(on_interrupt, kills) as passed:
        process = start(command, options, output, apart)
        guard.watch(process.pid)
        passed.process = process
        code = _watch(process, Path(options.folder), limits.timeout_s, meanwhile)
    attempt(stacks.clean, Path(options.folder))
    return code


def start(
    command: list[str],
    options: Options,
    output: tuple[IO[bytes], IO[bytes]] | None = None,
    apart: IsolatedRun | None = None,
) -> "subprocess.Popen[bytes]":
    """Start the command with the recorder injected; nobody watches it yet."""
    limits = apart or IsolatedRun()
    environment = options.enter({**os.environ, **limits.environment})
    printed, complained = output or (None, None)
    try:
        return subprocess.Popen(
            [*limits.wrapper_command, *command],
            env=environment,
            stdin=subprocess.DEVNULL if output else None,
            stdout=printed,
            stderr=complained,
            start_new_session=apart is not None,
            cwd=limits.folder,
        )
    except OSError as error:
        raise PitstopError(f"cannot start {command[0]}: {error.strerror}") from None


def end_like(code: int) -> int:
    """The exit code for our own process; a signal's death is repeated on ourselves."""
    if code >= 0:
        return code
    if os.name == "posix":
        with contextlib.suppress(OSError):  # SIGKILL has no handler to take away
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return 128 - code


def _watch(
    process: "subprocess.Popen[bytes]",
    folder: Path,
    timeout_s: float,
    meanwhile: Callable[[], None],
) -> int:
    meter = HostMeter(process.pid, folder)
    patience, begun = stacks.PATIENCE_SECONDS, time.monotonic()
    while True:
        attempt(meter.sample)
        attempt(meanwhile)
        if time.monotonic() - begun > patience:
            attempt(stacks.ask, folder)
            patience *= 2
        if time.monotonic() - begun > timeout_s:
            kill(process)
        try:
            return process.wait(SAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill it and all that it has started, which may have a session of its own as well."""
    with contextlib.suppress(psutil.NoSuchProcess):
        _, *others = guardian.family(psutil.Process(process.pid))
        process.kill()  # before the others, so that it starts no more; it is waited for elsewhere
        guardian.end(others)


class _signals_passed_on:  # noqa: N801 reads as the statement it is used in
    """Ctrl-C reaches the script from the terminal by itself; other signals are handed on to it."""

    process: "subprocess.Popen[bytes] | None" = None

    def __init__(self, on_interrupt: Callable[[], None], kills: bool) -> None:
        self._on_interrupt = on_interrupt
        self._kills = kills

    def __enter__(self) -> "_signals_passed_on":
        self._before: dict[Any, Any] = {}
        self._handle(signal.SIGINT, self._interrupt)
        for name in FORWARDED:
            if number := getattr(signal, name, None):
                self._handle(number, self._hand_on)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: signal.Signals, handler: Callable[..., None]) -> None:
        """A signal that was ignored when we began stays so, as nohup wants it to."""
        if signal.getsignal(number) is not signal.SIG_IGN:
            self._before[number] = signal.signal(number, handler)

    def _interrupt(self, *_: object) -> None:
        self._on_interrupt()
        if self._kills and self.process:
            kill(self.process)

    def _hand_on(self, number: int, _: object) -> None:
        if self._kills:
            self._interrupt()
        elif self.process and self.process.poll() is None:
            self.process.send_signal(number)


def new_run_folder(root: Path, name: str) -> Path:
    """A fresh folder below ``root/.pitstop/runs``, or a temporary one where that cannot be."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{Path(name).name.removesuffix('.py') or 'run'}"
    try:
        runs = own_folder(root, "runs")
        folder = next(each for each in _names(runs / stem) if not each.exists())
        folder.mkdir(ALONE)
        reached.begin(folder)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        try:
            folder = Path(tempfile.mkdtemp(prefix="pitstop-"))
        except OSError:
            raise PitstopError(
                f"{why}, nor is there a temporary folder: a recording needs a place (TMPDIR)"
            ) from None
        complain(f"{printable(why)}; recording to {folder} instead")
    return folder


def _names(path: Path) -> Iterator[Path]:
    yield path
    yield from (path.with_name(f"{path.name}-{number}") for number in count(2))
