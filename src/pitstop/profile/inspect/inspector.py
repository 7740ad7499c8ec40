"""Inspector: looks at every operation of one step, and at who called it.

A dispatch mode sees each ATen operation with its tensors, forward and backward alike; module hooks
tell which module call it belongs to; the Python stack tells the user's line. On a GPU torch's
profiler adds the time of each kernel, tied to the operation by a named range. Where anything was
compiled (modes and hooks would make Dynamo compile again), and where the script has a mode of its
own, they stay away and the profiler alone reports.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.hooks.modes import script_has_mode
from pitstop.profile.hooks.modules import compiled_anything
from pitstop.profile.inspect.dependence import Left
from pitstop.profile.inspect.flow import Flow
from pitstop.profile.inspect.gradients import got_and_asked, parameters
from pitstop.profile.inspect.kept import Trail
from pitstop.profile.inspect.kernels import KernelTimes
from pitstop.profile.inspect.origins import next_number
from pitstop.profile.inspect.watch import Watch
from pitstop.profile.record.settings import read_settings
from pitstop.profile.source.builders import built_at
from pitstop.profile.source.holders import Holders
from pitstop.profile.source.lines import Place

MOST_CALLS = 20_000  # of modules; a step of a large video model has some thousands


class Inspector:
    """One inspected step."""

    def __init__(
        self, step: int, profiled: bool, trace: Path | None, before: "Inspector | None"
    ) -> None:
        self._step = step
        self.profiled = profiled and (torch.cuda.is_initialized() or trace is not None)
        self._kernels = KernelTimes(trace) if self.profiled else None
        self._left: Left = before.left if before else {}
        self._kinds: set[type] = before.kinds if before else set()
        self._zeros = before.zeros if before else None
        self.watch: Watch | None = None
        self.left: Left = {}  # what the step leaves behind, for the next one to see it dropped
        self.kinds: set[type] = set()  # classes of the outermost modules
        self.zeros: set[Place] = set()  # lines that multiplied a term by zero
        self.trail: Trail | None = None
        self.sync_lines: list[Place] = []  # that made Python wait for the GPU, in their order

    def start(self, optimizers: list[Any], phase: Callable[[], str]) -> None:
        """Begin to look."""
        if self._kernels:
            attempt(self._kernels.start)
        if not compiled_anything() and not script_has_mode():
            named = self.profiled and torch.cuda.is_initialized()
            self.watch = attempt(Watch, named, phase, optimizers, self._left)
        if self.watch:
            self.watch.start()

    def stop(self) -> dict[str, Any]:
        """Look no more; return what was seen as plain values, ready for the recording."""
        if self.watch:
            self.watch.stop()
            self.watch = None if self.watch.gave_way else self.watch
        nothing: tuple[dict[int, float], list[list[Any]]] = ({}, [])
        stop = self._kernels.stop if self._kernels else lambda: nothing
        by_operation, rest = attempt(stop, otherwise=nothing)
        layout = self._kernels.layout if self._kernels else {}
        if self.watch and self._kernels:
            self.sync_lines = self.watch.waiting_lines(self._kernels.waits)
        found: dict[str, Any] = {"inspected": self._step, "kernels": rest}
        if self.watch:
            watch = self.watch
            rows = attempt(watch.operations, by_operation, layout, otherwise=[])
            found["operations"] = rows
            found |= attempt(self._flow, watch.flow, otherwise={})
        else:
            found["settings"] = attempt(read_settings, "", "", otherwise={})
        return found

    def _flow(self, flow: Flow) -> dict[str, Any]:
        flow.gradients.finish()
        unused = set(flow.unused())
        calls = flow.calls.all[:MOST_CALLS]
        modules = [each for call in calls if (each := call.module()) is not None]
        tops = list({id(top): top for top in map(flow.tree.top, modules)}.values())
        outermost = [each for each in calls if each.parent < 0]
        self.kinds = {type(each) for call in outermost if (each := call.module()) is not None}
        zeroed = flow.zeroed()
        self.zeros = {line for line, _ in zeroed}  # a mask is zero by chance, a weight every time
        self.left = flow.dependence.left()
        born, first = flow.dependence.born, flow.origins.first
        self.trail = Trail(born, flow.origins, first, next_number() - 1)
        rows = parameters(tops, flow.tree, flow.gradients, flow.discarded())
        return {
            "calls": [
                call.row(position in unused, flow.passes(position))
                for position, call in enumerate(calls)
            ],
            "zeroed": [row for row in zeroed if self._zeros is None or row[0] in self._zeros],
            "rebuilt": [
                position
                for position, call in enumerate(calls)
                if call.new and type(call.module()) in self._kinds
            ],
            "parameters": rows | {"made": attempt(_made, tops, flow, otherwise=[])},
            "settings": read_settings(flow.calls.device, flow.calls.autocast),
        }


def _made(tops: list[Any], flow: Flow) -> list[tuple[str, Place]]:
    """Where the modules were made whose parameters are not trained as they could be."""
    got, asked = got_and_asked(tops, flow.gradients)
    wanted = asked - (got & flow.gradients.owned)
    return built_at(tops, flow.tree, wanted, Holders(sys._getframe()))
