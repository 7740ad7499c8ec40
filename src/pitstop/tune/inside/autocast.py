"""Autocast: computing in half precision as one would write it, from outside.

People write ``with torch.autocast(...)`` around the forward pass *and* the loss, not around each
model. So autocast begins when a model is called to train, and ends when the backward pass begins
or a new batch is fetched. Where nothing is learned it is around the call alone, and the result is
given back in float32, since scripts go on with it (NumPy, for one, knows no bfloat16). Functions
that launch kernels of their own compute in float32, unless they say otherwise.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pitstop import internals
from pitstop.profile.inspect.origins import in_backward
from pitstop.tune.inside.kernels import minds_autocast
from pitstop.tune.inside.models import device_of

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

OWN = "the script has its own autocast"
HALF = {torch.float16, torch.bfloat16}


class Autocast:
    """Opens and closes autocast along the steps of a script."""

    def __init__(self, script: "Script", precision: torch.dtype) -> None:
        self._script = script
        self._precision = precision
        self._open: Any = None  # the context, while a forward pass is under way
        script.needs("model was called")
        script.on_model(self._look_at)
        script.around_model(self._around)
        script.patch(torch.autograd, "backward", self._then)
        script.patch(internals.LoaderIterator, "__next__", self._then)
        script.patch(torch.autocast, "__enter__", self._entered)
        script.patch(torch.utils.checkpoint, "checkpoint", self._checkpoint)
        script.on_kernel(self._keep_float32)
        script.switch(lambda: None, self.close)

    def close(self) -> None:
        """The forward pass is over."""
        if self._open:
            context, self._open = self._open, None
            context.__exit__(None, None, None)

    def _look_at(self, module: nn.Module) -> None:
        kinds = {each.dtype for each in module.parameters()}
        if kinds and kinds <= HALF:
            self._script.decline("the model is in half precision already")

    def _around(
        self, call: Callable[..., Any], module: nn.Module, *given: Any, **named: Any
    ) -> Any:
        device = device_of(module)
        if self._open:
            return call(*given, **named)
        if torch.is_autocast_enabled(device):
            self._script.decline(OWN)
            return call(*given, **named)
        if module.training and torch.is_grad_enabled():
            self._begin(device)
            return call(*given, **named)
        self._script.applied()
        with _Ours(device, dtype=self._precision):
            result = call(*given, **named)
        return _in_float32(result, self._precision)

    def _checkpoint(
        self, original: Callable[..., Any], function: Any, *given: Any, **named: Any
    ) -> Any:
        """A checkpoint restores what was open before it, so a model in one is too late to open."""
        if isinstance(function, nn.Module) and function.training and torch.is_grad_enabled():
            self._begin(device_of(function))
        return original(function, *given, **named)

    def _keep_float32(self, function: Any) -> None:
        def forward(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
            kinds = {each.device.type for each in given if isinstance(each, torch.Tensor)}
            device = next(filter(torch.is_autocast_enabled, sorted(kinds)), None)
            if device is None:
                return original(*given, **named)
            with torch.autocast(device, enabled=False):
                inputs = (_in_float32(each, self._precision) for each in given)
                return original(*inputs, **named)

        if not minds_autocast(function):
            self._script.patch(function, "forward", forward)

    def _begin(self, device: str) -> None:
        """Open autocast until the backward pass, unless something is."""
        if device and not (self._open or in_backward() or torch.is_autocast_enabled(device)):
            self._script.applied()
            self._open = _Ours(device, dtype=self._precision)
            self._open.__enter__()

    def _then(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self.close()
        return original(*given, **named)

    def _entered(self, original: Callable[..., Any], context: Any) -> Any:
        """A backward pass enters what was entered before, where it computes something again."""
        if (
            internals.is_autocast_on(context)
            and not isinstance(context, _Ours)
            and not in_backward()
        ):
            self._script.decline(OWN)
        return original(context)


class _Ours(torch.autocast):
    """Autocast that is not the script's own."""


def _in_float32(value: Any, precision: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype is precision else value
    if type(value) in {list, tuple}:
        return type(value)(_in_float32(each, precision) for each in value)
    if isinstance(value, dict):  # also those that have attributes, as models of transformers return
        for key, each in value.items():
            value[key] = _in_float32(each, precision)
    return value
