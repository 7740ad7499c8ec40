"""Replay: the bad step once more, looked at closely.

Every operation of it is seen with its line. Where the loss is bad, the graph behind it tells who
made it so. Where the loss is fine, each node of the backward pass is asked whether it turned finite
gradients into others.
"""

import math
import sys
from functools import partial
from typing import Any

import torch

from pitstop.core.evidence import Line, NonFinite
from pitstop.profile.forensics.graph import nodes_of
from pitstop.profile.forensics.hazards import is_finite, said
from pitstop.profile.forensics.nonfinite import Forensics
from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.inspect.inspector import Inspector


class Replay:
    """One repeated step."""

    def __init__(self, step: int, optimizers: list[Any]) -> None:
        self._step = step
        self._inspector = Inspector(step, profiled=False, trace=None, before=None)
        self._forensics = Forensics()
        self._backward: NonFinite | None = None
        self._hooks: list[Any] = []
        self._inspector.start(optimizers, lambda: "")

    def backward_begins(self, root: Any) -> None:
        """The loss is there, and the graph behind it is still whole."""
        watch = self._inspector.watch
        if not isinstance(root, torch.Tensor) or root.grad_fn is None or watch is None:
            return
        self._forensics.learn(root, watch.flow)
        loss = float(root.detach().sum())
        if math.isfinite(loss):
            for node in nodes_of(root):
                self._hooks.append(node.register_hook(partial(self._judge, node)))
        else:
            self._forensics.backward_begins(root, loss, self._step, sys._getframe())

    def end(self) -> NonFinite | None:
        """What was found, if anything was."""
        for hook in self._hooks:
            hook.remove()
        attempt(self._inspector.stop)
        for line in self._forensics.note(last=True):
            found = line["non_finite"]
            return NonFinite(
                self._step,
                found["phase"],
                Line(*found["where"]),
                found["module"],
                found["operation"],
                found["detail"],
            )
        return self._backward

    def _judge(self, node: Any, below: tuple[Any, ...], above: tuple[Any, ...]) -> None:
        """Called when a node of the backward pass has run; the first bad one is the culprit."""
        if self._backward is not None or not _bad(below) or _bad(above):
            return
        watch = self._inspector.watch
        origin = watch.flow.origins.of(node) if watch else None
        line, call = origin or (("", 0, ""), -1)
        module = watch.flow.calls.all[call].path if watch and call >= 0 else ""
        self._backward = NonFinite(self._step, "backward", Line(*line), module, said(node))


def _bad(gradients: tuple[Any, ...]) -> bool:
    return any(isinstance(each, torch.Tensor) and not is_finite(each) for each in gradients)
