"""Watching: what one pass of a step computes: what models are given and return, and its losses."""

from collections.abc import Callable
from math import isclose
from typing import Any

import torch
from torch import Tensor

from pitstop.profile.hooks.patch import Undo, patch
from pitstop.profile.inspect.origins import in_backward
from pitstop.tune.bench.outside import Outside
from pitstop.tune.inside.models import Models
from pitstop.tune.inside.numbers import tensors_in

MOST_CALLS = 32  # of models in a step, whose inputs are looked at
ALIKE = 1e-3  # share by which what is computed before a call may differ, where sums are not exact
SAMPLED = 65_536  # numbers of each tensor that are looked at one by one; its sum covers the rest


class Pass:
    """What was seen in one pass."""

    def __init__(self) -> None:
        self.inputs: list[list[Tensor]] = []  # of each of the first calls, as sums
        self.losses: list[Tensor] = []
        self.calls = 0

    def numbers(self) -> list[float]:
        """The losses."""
        return [float(each) for each in self.losses]

    def is_given(self, other: "Pass", calls: int | None = None) -> bool:
        """Whether models are given the same as in another pass, but for rounding."""
        both = [each.inputs[:calls] for each in (self, other)]
        ours, theirs = ([x.tolist() for call in one for x in call] for one in both)
        if [len(each) for each in both[0]] != [len(each) for each in both[1]]:
            return False
        pairs = zip(ours, theirs, strict=True)
        return all(
            isclose(a, b, rel_tol=ALIKE, abs_tol=ALIKE)
            for x, y in pairs
            for a, b in zip(x, y, strict=True)
        )


class Watching:
    """Watches passes; ``around_call`` is what makes twins of single calls."""

    def __init__(self, models: Models, undos: list[Undo], outside: Outside) -> None:
        self._pass: Pass | None = None
        self._outside = outside
        self.around_call: Callable[..., Any] | None = None
        models.around(self._around, functions=True)
        self._undos = undos

    def listen(self) -> None:
        """On top of all changes, so that one which scales the loss is not seen."""
        self._undos.append(patch((torch.autograd,), "backward", self._backward))

    def begin(self) -> Pass:
        """Watch a pass from now on."""
        self._pass = Pass()
        return self._pass

    def end(self) -> None:
        """Watch no longer."""
        self._pass = None

    def _around(self, call: Callable[..., Any], module: Any, *given: Any, **named: Any) -> Any:
        seen = self._pass
        given, named = self._outside.given((given, named))
        call = self._outside.inside(call)
        if seen is not None:
            if seen.calls < MOST_CALLS:
                seen.inputs.append([sums(each) for each in tensors_in([given, named])])
            seen.calls += 1
        if self.around_call is not None:
            return self.around_call(call, module, *given, **named)
        return call(*given, **named)

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *rest: Any, **named: Any) -> Any:
            if self._pass is not None and not in_backward():
                roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
                self._pass.losses += [each.detach().double().sum() for each in roots]
            return original(tensors, *rest, **named)

        return backward


def sums(tensor: Tensor) -> Tensor:
    """A few numbers that are equal for equal content; for others different, almost surely."""
    flat = tensor.detach().reshape(-1)
    if not flat.numel() or flat.is_meta:
        return torch.zeros(3, dtype=torch.float64)
    few = flat[:: -(-flat.numel() // SAMPLED)].double()
    weights = torch.linspace(1.0, 2.0, few.numel(), dtype=torch.float64, device=few.device)
    whole = flat.sum(dtype=torch.float64) if not flat.is_complex() else flat.real.sum()
    return torch.stack([whole.double(), few.sum(), (few * weights).sum()])
