"""Ranks: processes that the script starts itself, and that meet in a process group.

What multiprocessing starts is left alone: mostly it is a loader's worker. But a process that joins
a group is a rank, as one of torchrun's is: from then on it is recorded, or changed where the script
is. Without torch in it, it is not even looked at.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from pitstop.profile import attach
from pitstop.profile.attempt import attempt, ignore, leave_no_trace
from pitstop.profile.options import Options

if TYPE_CHECKING:
    from pitstop.profile.patch import Function, Given, Undo
    from pitstop.profile.recorder import Recorder

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
    """Patch of multiprocessing's Process.start: a process that joins a group is a rank."""
    from pitstop.profile.patch import patch, told  # noqa: PLC0415 needs torch: a child may have none

    def build(original: "Function") -> "Function":
        def prepare(given: "Given") -> None:
            if recorder.alive:
                _prepare(recorder.options, given[0][0])

        return told(original, prepare, failed=recorder.fail)

    return patch((BaseProcess,), "start", build)


def follow(options: Options) -> None:
    """Let ranks that are started from now on be changed as this process is, unrecorded."""
    from pitstop.profile.patch import patch, told  # noqa: PLC0415 likewise

    def build(original: "Function") -> "Function":
        return told(original, lambda given: _prepare(options, given[0][0]), failed=ignore)

    patch((BaseProcess,), "start", build)


def _prepare(options: Options, process: Any) -> None:
    """Give a process that is about to start our entry, which a spawned one must be able to load."""
    target = process._target
    module = getattr(target, "__module__", None) or ""
    importable = PathFinder.find_spec("pitstop", sys.path) is not None
    if target is not None and importable and not module.startswith(NO_RANKS):
        process._target = Entry(target, replace(options, also=()) if options.record else options)


def _begin_when_joined(options: Options) -> None:
    """In the started process: it is a rank once it has joined a group, of itself alone perhaps."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available():
        return
    from pitstop.profile.patch import patch, told  # noqa: PLC0415 torch is here

    def joined(*_: Any) -> None:
        undo()
        with _rank_told(distributed.get_rank()):
            attach.begin_again(options)

    def build(original: "Function") -> "Function":
        return told(original, lambda _: True, joined)

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
