"""Hooks around the DataLoader: where it was built, when it starts, how long each batch takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data._utils import worker
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pitstop.profile.patch import Undo, guarded, patch
from pitstop.profile.quiet import attempt
from pitstop.profile.recorder import Recorder
from pitstop.profile.workers import sample_worker

Function = Callable[..., Any]


def loaders(recorder: Recorder) -> Undo:
    """Patch of DataLoader.__init__: the line that built each loader."""

    def build(original: Function) -> Function:
        def __init__(loader: Any, dataset: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
            guarded(recorder, recorder.loader_built, loader, dataset)
            try:
                original(loader, dataset, *arguments, **options)
            except ValueError:
                guarded(recorder, recorder.loader_not_built, loader, dataset)
                raise

        return __init__

    return patch((DataLoader,), "__init__", build)


def epochs(recorder: Recorder) -> Undo:
    """Patch of DataLoader.__iter__: how long the script waits until workers are started."""

    def build(original: Function) -> Function:
        def start(loader: Any) -> Any:
            if not guarded(recorder, recorder.begin_epoch, loader):
                return original(loader)
            try:
                iterator = original(loader)
            except BaseException:
                guarded(recorder, recorder.end_wait)
                raise
            guarded(recorder, recorder.epoch_begun, loader, iterator)
            return iterator

        return start

    return patch((DataLoader,), "__iter__", build)


def batches(recorder: Recorder) -> Undo:
    """Patch of the DataLoader iterator's __next__: how long the script waits for each batch."""

    def build(original: Function) -> Function:
        def fetch(iterator: Any) -> Any:
            if not guarded(recorder, recorder.begin_wait, iterator):
                return original(iterator)
            try:
                batch = original(iterator)
            except BaseException:
                guarded(recorder, recorder.end_wait)
                raise
            guarded(recorder, recorder.fetched, iterator, batch)
            return batch

        return fetch

    return patch((_BaseDataLoaderIter,), "__next__", build)


def workers(recorder: Recorder) -> Undo:
    """Patch of DataLoader's _worker_loop: what forked workers do, sampled for a moment."""
    folder = Path(recorder.options.folder)

    def build(original: Function) -> Function:
        def loop(*arguments: Any, **options: Any) -> Any:
            stop = attempt(lambda: sample_worker(folder), lambda: None)
            try:
                return original(*arguments, **options)
            finally:
                attempt(stop, None)

        return loop

    return patch((worker,), "_worker_loop", build)
