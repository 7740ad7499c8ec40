"""Inspector: looks at every operation of one step, and at who called it.

A dispatch mode sees each ATen operation with its tensors, forward and backward alike; module hooks
tell which module call it belongs to; the Python stack tells the user's line. On a GPU torch's
profiler adds the time of each kernel, tied to the operation by a named range. Where anything was
compiled, modes and hooks stay away (they would make Dynamo compile again) and the profiler alone
reports.
"""

from pathlib import Path
from typing import Any

import torch

from pitstop.profile.kernels import KernelTimes
from pitstop.profile.modules import compiled_anything
from pitstop.profile.watch import Watch

MOST_OPERATIONS = 3000  # distinct ones kept, by time; a model of a thousand layers has fewer


class Inspector:
    """One inspected step."""

    def __init__(self, step: int, trace: Path | None) -> None:
        self._step = step
        on_gpu = torch.cuda.is_initialized()
        self._kernels = KernelTimes(trace) if on_gpu or trace else None
        self.watch = None if compiled_anything() else Watch(named=on_gpu)

    def start(self) -> None:
        """Begin to look."""
        if self._kernels:
            self._kernels.start()
        if self.watch:
            self.watch.start()

    def stop(self, optimizers: list[Any]) -> dict[str, Any]:
        """Look no more; return what was seen as plain values, ready for the recording."""
        if self.watch:
            self.watch.stop()
        by_operation, rest = self._kernels.stop() if self._kernels else ({}, [])
        found: dict[str, Any] = {"inspected": self._step, "kernels": rest}
        if self.watch:
            operations = self.watch.operations(by_operation)
            found["operations"] = operations[:MOST_OPERATIONS]
            found["left_out"] = len(operations[MOST_OPERATIONS:])
            found["calls"] = self.watch.calls
            found["parameters"] = parameters(self.watch.roots, optimizers)
        return found


def parameters(roots: list[Any], optimizers: list[Any]) -> dict[str, Any]:
    """Which parameters got a gradient, and which optimizer, if any, will use it.

    Asked right after the last optimizer step, when gradients are still there.
    """
    owned = {
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    named = {id(each): (name, each) for root in roots for name, each in root.named_parameters()}
    idle, unused, outside = [], [], []
    for name, each in named.values():
        if each.requires_grad and each.grad is None:
            idle.append([name, each.numel()])
        elif each.grad is not None and id(each) not in owned:
            unused.append([name, each.numel()])
        if each.requires_grad and id(each) not in owned:
            outside.append([name, each.numel()])
    return {
        "count": sum(each.numel() for _, each in named.values()),
        "without_gradient": idle,
        "gradient_unused": unused,
        "outside_optimizer": outside,
    }
