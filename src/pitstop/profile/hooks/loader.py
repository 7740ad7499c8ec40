"""Hooks around the DataLoader: where it was built, when it starts, how long each batch takes."""

from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from pitstop import internals
from pitstop.profile.hooks.attempt import attempt, leave_no_trace
from pitstop.profile.hooks.patch import Function, Given, Undo, argument, patch, with_callbacks
from pitstop.profile.record.recorder import Recorder
from pitstop.profile.record.workers import sample_worker


def loaders(recorder: Recorder) -> Undo:
    """Patch of DataLoader.__init__: the line that built each loader."""

    def build(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda given: recorder.loader_built(given[0][0], _dataset(given)),
            fails=lambda given: recorder.loader_not_built(given[0][0], _dataset(given)),
            failed=recorder.fail,
        )

    return patch((DataLoader,), "__init__", build)


def epochs(recorder: Recorder) -> Undo:
    """Patch of DataLoader.__iter__: how long the script waits until workers are started."""

    def build(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda given: recorder.begin_epoch(given[0][0]),
            lambda given, iterator: recorder.epoch_begun(given[0][0], iterator),
            lambda _: recorder.end_wait(),
            recorder.fail,
        )

    return patch((DataLoader,), "__iter__", build)


def batches(recorder: Recorder) -> Undo:
    """Patch of the DataLoader iterator's __next__: how long the script waits for each batch."""

    def build(original: Function) -> Function:
        return with_callbacks(
            original,
            recorder.notes.begin_wait,
            recorder.notes.fetched,
            recorder.end_epoch,
            recorder.fail,
        )

    return patch((internals.LoaderIterator,), "__next__", build)


def workers(recorder: Recorder) -> Undo:
    """Patch of DataLoader's _worker_loop: what forked workers do, sampled for a moment."""
    folder = Path(recorder.options.folder)

    def build(original: Function) -> Function:
        def loop(*arguments: Any, **options: Any) -> Any:
            stop = attempt(sample_worker, folder, otherwise=lambda: None)
            try:
                return original(*arguments, **options)
            except BaseException as error:
                leave_no_trace(error)
                raise
            finally:
                attempt(stop)

        return loop

    return patch((internals.worker,), "_worker_loop", build)


def _dataset(given: Given) -> Any:
    return argument(given, 1, "dataset")
