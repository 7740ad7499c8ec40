"""Paced: one form of a system, which holds still after each step until it is told to go on.

    python -m pitstop.workloads.paced RECORD frame_interpolation fast -- --small

At the end of a step, which is when its ``[step`` line is printed, all processes of the group stop
themselves: loader workers and threads too, so that nothing is done ahead while another form has
its turn. The same holds before and after each phase that ``bench.toml`` names, once there was a
first step. What was measured goes to the file RECORD as lines of JSON, without the time in which
the main thread waited for a core: others use the machine. This file imports what the systems
import and no more.
"""

import functools
import importlib
import json
import os
import signal
import sys
import time
import tomllib
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

FOLDER = Path(__file__).parent


class Pace:
    """Knows when a step ends, says how long it took, and holds the program still."""

    def __init__(self, record: TextIO, printed: TextIO) -> None:
        self.record, self.printed = record, printed
        self.steps, self.depth, self.wait = 0, 0, 0.0
        self.line = ""
        self.mark = now()

    def write(self, text: str) -> int:
        """Print, and hold where that ended a step."""
        self.printed.write(text)
        *whole, self.line = (self.line + text).split("\n")
        if any(line.startswith("[step ") for line in whole):
            self.steps += 1
            self.say("step", now() - self.mark, wait=self.wait)
            self.hold()
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.printed, name)

    def say(self, kind: str, seconds: float, **more: float) -> None:
        """One line of the record."""
        line = {"kind": kind, "seconds": seconds, "gpu": gpu_bytes(), **more}
        self.record.write(json.dumps(line) + "\n")
        self.record.flush()

    def hold(self) -> None:
        """Stop all processes of this group; whoever started us lets them go on."""
        self.printed.flush()
        os.killpg(os.getpgrp(), signal.SIGSTOP)
        self.mark, self.wait = now(), 0.0

    def phase(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, alone on the machine and timed, and not a part of the step around it."""

        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            if not self.steps:  # while it starts nobody has the machine alone
                return function(*given, **named)
            before, waited = now() - self.mark, self.wait
            self.say("begin", 0.0)
            self.hold()
            result = function(*given, **named)
            self.say(name, now() - self.mark)
            self.hold()
            self.mark, self.wait = now() - before, waited
            return result

        return timed

    def waits(self, owner: type, name: str) -> None:
        """Count the time in a method of the loader; one that calls another counts once."""
        method = getattr(owner, name)

        @functools.wraps(method)
        def timed(*given: Any) -> Any:
            begun, self.depth = now(), self.depth + 1
            try:
                return method(*given)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.wait += now() - begun

        setattr(owner, name, timed)


def now() -> float:
    """Seconds, less those in which the main thread waited for a core that somebody else had."""
    try:
        stolen = int(Path("/proc/self/schedstat").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        stolen = 0  # not known here
    return time.perf_counter() - stolen / 1e9


def gpu_bytes() -> int:
    """The most that torch has had on the GPU; 0 where there is none."""
    torch = sys.modules.get("torch")
    used: int = torch.cuda.max_memory_allocated() if torch and torch.cuda.is_initialized() else 0
    return used


def without_tensorboard() -> None:
    """Where it is not installed, what would be logged is dropped: nothing here reads it."""
    with suppress(ImportError):
        importlib.import_module("torch.utils.tensorboard")
        return

    class SummaryWriter:
        def __init__(self, folder: str = "runs") -> None:
            Path(folder).mkdir(parents=True, exist_ok=True)

        def __enter__(self) -> "SummaryWriter":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def add_scalar(self, *_: object, **__: object) -> None:
            pass

        add_image = add_scalar

        def close(self) -> None:
            pass

    module = types.ModuleType("torch.utils.tensorboard")
    vars(module)["SummaryWriter"] = SummaryWriter
    sys.modules["torch.utils.tensorboard"] = module


def _time_phase(pace: Pace, phase: str, module: str, path: str) -> None:
    """The function at ``path`` of this module, unless it is another module's."""
    owner: Any = importlib.import_module(module)
    *parents, method = path.split(".")
    for each in parents:
        owner = getattr(owner, each, None)
    function = getattr(owner, method, None)
    if function is not None and function.__module__ == module:
        setattr(owner, method, pace.phase(phase, function))


def main(words: list[str]) -> None:
    """Run the form that is asked for: ``slow``, ``fast``, or ``fast`` with some of its edits."""
    cut = words.index("--")
    record, name, form, *chosen = words[:cut]
    without_tensorboard()
    loaders = importlib.import_module("torch.utils.data.dataloader")
    with Path(record).open("a", encoding="utf-8") as file:
        pace = Pace(file, sys.stdout)
        pace.waits(loaders.DataLoader, "__iter__")
        pace.waits(loaders._BaseDataLoaderIter, "__next__")
        phases = tomllib.loads((FOLDER / name / "bench.toml").read_text("utf-8")).get("phases", {})
        overrides = ["fast"] if form == "fast" and not chosen else []  # of what slow.py does
        for phase, place in phases.items():
            where, _, path = place.partition(":")
            for module in (where, *overrides):
                _time_phase(pace, phase, f"pitstop.workloads.{name}.{module}", path)
        sys.stdout = pace
        if chosen:
            edits = importlib.import_module("pitstop.workloads.edits")
            edits.main([name, f"--{form}", *chosen, *words[cut:]])
        else:
            script = importlib.import_module(f"pitstop.workloads.{name}.{form}")
            script.main(words[cut + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
