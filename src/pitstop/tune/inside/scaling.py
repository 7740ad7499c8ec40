"""Scaling: a GradScaler around a script that has none.

The loss is scaled as its backward pass begins; gradients are unscaled before they are clipped or
used, and a step with infinite ones is skipped. The scale moves when the next backward pass begins,
since only then it is certain that all optimizers of this step have stepped.
"""

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from pitstop.profile.inspect.origins import in_backward

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

Function = Callable[..., Any]
FIRST_SCALE = 2.0**10  # torch's own 2**16 overflows in the first steps, which are then skipped
OWN = "the script has its own gradient scaler"


class Scaling:
    """One gradient scaler for all optimizers of the script."""

    def __init__(self, script: "Script") -> None:
        self._script = script
        self._scaler: GradScaler | None = None
        self._stepping = self._stepped = False
        self._unscaled: WeakSet[Optimizer] = WeakSet()
        script.patch(torch.autograd, "backward", self._backward)
        script.patch(GradScaler, "scale", self._scale)
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                script.patch(owner, name, self._clip)
        script.on_optimizer_built(self._built)

    def _backward(self, original: Function, tensors: Any, *rest: Any, **named: Any) -> Any:
        if in_backward():  # of a checkpoint inside another pass, which has scaled already
            return original(tensors, *rest, **named)
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        if self._scaler is None:
            self._scaler = GradScaler(roots[0].device.type, init_scale=FIRST_SCALE)
        elif self._stepped:
            self._scaler.update()
        self._stepped = False
        return original(self._scaler.scale(roots), *rest, **named)

    def _scale(self, original: Function, scaler: GradScaler, outputs: Any) -> Any:
        if scaler is not self._scaler and scaler.is_enabled():
            self._script.decline(OWN)
        return original(scaler, outputs)

    def _clip(self, original: Function, parameters: Any, *rest: Any, **named: Any) -> Any:
        found = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        wanted = {id(each) for each in found}
        for optimizer in self._script.optimizers:
            if wanted & {id(each) for each in _with_gradient(optimizer)}:
                self._unscale(optimizer)
        return original(found, *rest, **named)

    def _unscale(self, optimizer: Optimizer) -> None:
        if self._scaler and optimizer not in self._unscaled:
            self._scaler.unscale_(optimizer)
            self._unscaled.add(optimizer)

    def _built(self, optimizer: Optimizer) -> None:
        def step(living: Optimizer, *given: Any, **named: Any) -> Any:
            plain = self._stepping or not self._script.on or self._scaler is None
            if plain or not _with_gradient(living):
                return type(living).step(living, *given, **named)
            return self._step(living, *given, **named)

        optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]

    def _step(self, optimizer: Optimizer, *given: Any, **named: Any) -> Any:
        assert self._scaler is not None
        self._stepping = True
        try:
            return self._scaler.step(optimizer, *given, **named)
        finally:
            self._stepping, self._stepped = False, True
            self._unscaled.discard(optimizer)


def _with_gradient(optimizer: Optimizer) -> list[torch.Tensor]:
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    return [each for each in parameters if each.grad is not None]
