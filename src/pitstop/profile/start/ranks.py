"""Ranks: processes that the script starts itself, and that meet in a process group.

What multiprocessing starts is left alone: mostly it is a loader's worker. But a process that joins
a group is a rank, as one of torchrun's is: from then on it is recorded, or changed where the script
is. Without torch in it, it is not even looked at.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from pitstop.profile.hooks.attempt import attempt, ignore, leave_no_trace
from pitstop.profile.start import attach
from pitstop.profile.start.options import Options

if TYPE_CHECKING:
    from pitstop.profile.hooks.patch import Function, Undo
    from pitstop.profile.record.recorder import Recorder

NO_RANKS = ("torch.utils.data", "multiprocessing", "concurrent")  # whose targets are helpers


@dataclass(frozen=True)
class Entry:
    """What a started process runs instead of its target: the target, ready to be a rank."""

    target: Callable[..., Any]
    options: Options

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the target; what is recorded is written, however it ends."""
        attempt(_begin_when_joined, self.options)
        try:
            return self.target(*arguments, **named)
        except BaseException as error:
            leave_no_trace(error)
            raise
        finally:
            attempt(attach.close)


def processes(recorder: "Recorder") -> "Undo":
    """Patches of Process.start and subprocess.Popen: what joins a group, or has a rank, is one."""
    return _at_starts(lambda: recorder.options if recorder.alive else None, recorder.fail)


def follow(options: Options) -> None:
    """Let ranks that are started from now on be changed as this process is, unrecorded."""
    _at_starts(lambda: options, ignore)


def _at_starts(asked: Callable[[], Options | None], failed: Callable[[Exception], None]) -> "Undo":
    """Hand on what is asked of this process to the ranks that it starts."""
    from pitstop.profile.hooks.patch import patch, with_callbacks  # noqa: PLC0415 needs torch: a child may have none

    def of_process(original: "Function") -> "Function":
        return with_callbacks(
            original, lambda given: _hand_on(_prepare, given[0][0]), failed=failed
        )

    def of_program(original: "Function") -> "Function":
        return with_callbacks(
            original, lambda given: _hand_on(_prepare_program, given[1]), failed=failed
        )

    def _hand_on(prepare: Callable[[Options, Any], None], started: Any) -> None:
        if options := asked():
            prepare(options, started)

    undos = (
        patch((BaseProcess,), "start", of_process),
        patch((subprocess.Popen,), "__init__", of_program),
    )

    def undo() -> None:
        for each in undos:
            each()

    return undo


def _prepare_program(options: Options, given: dict[str, Any]) -> None:
    """A script that starts itself again, as Lightning does, gives each of them a rank."""
    rank = (given.get("env") or {}).get("LOCAL_RANK")
    if rank is not None and rank != os.environ.get("LOCAL_RANK"):
        given["env"] = _of_rank(options).enter(given["env"])


def _of_rank(options: Options) -> Options:
    """What a rank is to do: to be recorded, or to be changed as the process that started it."""
    return replace(options, also=()) if options.record else options


def _prepare(options: Options, process: Any) -> None:
    """Give a process that is about to start our entry, which a spawned one must be able to load."""
    target = process._target
    module = getattr(target, "__module__", None) or ""
    importable = PathFinder.find_spec("pitstop", sys.path) is not None
    if target is not None and importable and not module.startswith(NO_RANKS):
        process._target = Entry(target, _of_rank(options))


def _begin_when_joined(options: Options) -> None:
    """In the started process: it is a rank once it has joined a group, of itself alone perhaps."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available():
        return
    from pitstop.profile.hooks.patch import patch, with_callbacks  # noqa: PLC0415 torch is here

    def joined(*_: Any) -> None:
        undo()
        with _rank_told(distributed.get_rank()):
            attach.begin_again(options)

    def build(original: "Function") -> "Function":
        return with_callbacks(original, lambda _: True, joined)

    owners = (distributed, distributed.distributed_c10d)
    undo = patch(owners, "init_process_group", build)


@contextmanager
def _rank_told(rank: int) -> Iterator[None]:
    """The rank where torchrun would have put it, for as long as we need it there."""
    before = os.environ.get("RANK")
    os.environ["RANK"] = str(rank)
    try:
        yield
    finally:
        os.environ.pop("RANK") if before is None else os.environ.update(RANK=before)
