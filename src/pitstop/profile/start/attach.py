"""Attach: wait until the script imports torch, then start recording."""

import atexit
import contextlib
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitstop.core.private import private
from pitstop.profile.hooks.attempt import attempt, complain
from pitstop.profile.hooks.executed import when_executed
from pitstop.profile.start.options import CANNOT_BEGIN, FIRST, Options, take_options
from pitstop.profile.start.reached import PYTHON, TORCH, reach
from pitstop.profile.start.restarts import follow as follow_restarts
from pitstop.profile.start.stacks import answer_questions, stop_answering
from pitstop.profile.steps.pattern import OUTSIDE

if TYPE_CHECKING:
    from pitstop.profile.record.recorder import Recorder

_active: "list[Recorder]" = []  # the one recorder of this process, for ``pitstop.step``
_begun: "list[Options]" = []  # what was done to this process, or to that which it is a fork of


def attach() -> None:
    """Arrange for recording to begin when torch is there; a process without torch is left alone."""
    options = take_options()
    if first := os.environ.get(FIRST):
        _start(*first.split(" ", 1))
    if options:
        reach(options.folder, PYTHON)
        follow_restarts(options)
        process = os.getpid()  # a fork of it is a helper

        def begin(_: object) -> None:
            if os.getpid() == process:
                reach(options.folder, TORCH)
                attempt(_begin, options, failed=_not_recording)

        when_executed("torch", begin)


def mark(begins: bool) -> None:
    """The script marks the begin or end of a step; nothing happens where nobody records."""
    for recorder in _active:
        attempt(recorder.cut, OUTSIDE if begins else "marked", failed=recorder.fail)


def begin_again(options: Options) -> None:
    """Do to this process what was done to the one that has started it; a fork has its hooks."""
    for recorder in _active:
        recorder.undo()
    if options.record:
        _record(options, [])
    elif not _begun:
        _begin(options)


def close() -> None:
    """End the recording of this process, if there is one, before the process itself ends."""
    for recorder in _active:
        recorder.close()


def _not_recording(error: Exception) -> None:
    complain(f"not recording: {type(error).__name__}: {error}")


def _begin(options: Options) -> None:
    _begun.append(options)
    begun = [_start(name, argument) for name, argument in options.also]
    if options.record:
        _record(options, [each for each in begun if each is not None])
    else:
        from pitstop.profile.start.ranks import follow  # noqa: PLC0415 multiprocessing, not before

        follow(options)


def _start(name: str, argument: str) -> Any:
    """Call what the launching process asked for; where that fails, the run would prove nothing."""
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)(argument)
    except Exception as error:  # noqa: BLE001 whatever it is, the run ends here
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        complain(f"{name} failed: {said}")
        os._exit(CANNOT_BEGIN)


def _record(options: Options, listeners: list[Any]) -> None:
    from pitstop.profile.hooks.hooks import install  # noqa: PLC0415 needs torch, which is here now
    from pitstop.profile.record.recorder import Recorder  # noqa: PLC0415 likewise
    from pitstop.profile.record.sampler import safe_to_fork  # noqa: PLC0415 threads, not before they are needed

    recorder = Recorder(options)
    _active[:] = [recorder]
    recorder.undo = install(recorder)
    waiting = None if options.redact else answer_questions(Path(options.folder))  # with its paths

    def on_step_end(done: int) -> bool:
        if done == 1:
            stop_answering(waiting)
            _tell_about(options.folder)
        return True in [each.step_ended(done) for each in listeners]

    recorder.on_step_end = on_step_end
    recorder.may_note = not listeners
    atexit.register(_end, recorder, waiting)
    if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
        os.register_at_fork(after_in_child=recorder.abandon)
        safe_to_fork()


def _end(recorder: "Recorder", waiting: Path | None) -> None:
    recorder.close()
    stop_answering(waiting)


def _tell_about(folder: str) -> None:
    """Write down what the run runs on; by now the script itself has started the GPU, if it will."""
    torch = sys.modules["torch"]
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    about = {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(affinity(0)) if affinity else os.cpu_count() or 0,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_initialized() else "",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    path = Path(folder) / "about.json"
    with (
        contextlib.suppress(OSError),
        open(path, "w", encoding="utf-8", opener=private) as stream,
    ):
        json.dump(about, stream)
