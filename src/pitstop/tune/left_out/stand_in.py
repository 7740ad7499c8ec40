"""Stand-in: a tensor of the right shape in place of a result that nobody is said to need.

It is a tensor of zeros that knows what it is. Whatever is computed from it is a stand-in as well,
but for a product with zero, which is a number like any other. So it shows at once, in every step,
who needs the result after all: a loss, a number that Python reads, a tensor that is written to.

Where gradients are asked for the graph stays whole: behind a stand-in the same parameters and
inputs get a gradient as behind the real result, and it is zero.
"""

import sys
from collections.abc import Callable
from typing import Any
from weakref import ref

import torch

from pitstop import internals
from pitstop.profile.source.lines import Place, user_line

READS = {"item", "tolist", "numpy", "__float__", "__int__", "__complex__", "__array__"}
READS |= {"__format__", "__repr__", "__str__"}  # by a log, mostly
DECIDES = {"__bool__", "is_nonzero", "equal", "allclose", "__contains__", "__index__"}
ELSEWHERE = {"data_ptr", "untyped_storage", "storage", "__dlpack__", "__reduce_ex__"}
ELSEWHERE |= {"__deepcopy__"}  # goes where no tensor tells of it
TIMES = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}
SPREADS_ZERO = {*TIMES, "neg", "__neg__", "mean", "sum", "div", "__truediv__", "detach"}
INTO = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"}


class Claim:
    """That nobody needs some calls, and what speaks against it."""

    def __init__(self, refuse: Callable[[str], None], may_be_logged: bool) -> None:
        self._refuse = refuse
        self._may_be_logged = may_be_logged  # a term multiplied by zero: logs may still print it
        self.read: dict[Place, None] = {}  # where its numbers were read, for a log
        self.living: list[ref[torch.Tensor]] = []  # the stand-ins of this step

    def is_read(self, frame: Any) -> None:
        """Python reads a number."""
        line = user_line(frame)
        if self._may_be_logged:
            self.read[line] = None
        else:
            self.against("its result is read", line)

    def against(self, what: str, line: Place | None = None) -> None:
        """It is needed."""
        path, number, _ = line or ("", 0, "")
        self._refuse(f"{what} at {path.rpartition('/')[2]}:{number}" if path else what)


class StandIn(torch.Tensor):
    """Zeros in place of a result; ``zero``: what is known to be zero, and so is no claim."""

    claim: Claim
    zero: bool

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it as for any tensor, and see whether the result is still one of ours."""
        del types
        named = kwargs or {}
        ours = [each for each in _flat((args, named)) if isinstance(each, StandIn)]
        claims = [each.claim for each in ours if not each.zero]
        name = getattr(func, "__name__", "")
        if claims:
            _look(name, claims[0], args, named)
        with internals.without_subclasses():
            result = func(*args, **named)
        if name == "__iter__":
            result = list(result)
        if claims and not (name in TIMES and _is_zero(args)):
            result = _each(result, lambda tensor: stand_in(tensor, claims[0]))
        elif ours and name in SPREADS_ZERO:
            result = _each(result, lambda tensor: stand_in(tensor, ours[0].claim, zero=True))
        return iter(result) if name == "__iter__" else result


def stand_in(tensor: torch.Tensor, claim: Claim, zero: bool = False) -> torch.Tensor:
    """The same tensor, marked."""
    made = tensor if isinstance(tensor, StandIn) else tensor.as_subclass(StandIn)
    made.claim, made.zero = claim, zero
    if not zero:
        claim.living.append(ref(made))
    return made


def is_needed(value: Any) -> Claim | None:
    """The claim that a value speaks against by being learned from."""
    return next(
        (each.claim for each in _flat(value) if isinstance(each, StandIn) and not each.zero), None
    )


class ZeroGradients(torch.autograd.Function):
    """Results that are there already, behind which every gradient is zero."""

    @staticmethod
    def forward(ctx: Any, results: list[torch.Tensor], *leaves: torch.Tensor) -> Any:
        """The results, as if they had been computed from these."""
        ctx.leaves = [(each.shape, each.dtype, each.device) for each in leaves]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """A zero for each, which takes no memory."""
        zeros = (
            torch.zeros((), dtype=dtype, device=device).expand(shape)
            for shape, dtype, device in ctx.leaves
        )
        return None, *zeros


def _look(name: str, claim: Claim, given: Any, named: Any) -> None:
    """Who asks for the numbers of a stand-in."""
    frame = sys._getframe(2)
    target = named.get("out", given[0] if given else None)
    writes = name in INTO or "out" in named or (name[-1:] == "_" and name[:2] != "__")
    if name in READS:
        claim.is_read(frame)
    elif name in DECIDES:
        claim.against("Python decides by its result", user_line(frame))
    elif name in ELSEWHERE:
        claim.against("its result goes where we cannot follow", user_line(frame))
    elif name == "backward":
        claim.against("it is learned from", user_line(frame))
    elif writes and isinstance(target, torch.Tensor) and not isinstance(target, StandIn):
        claim.against("its result is written into another tensor", user_line(frame))


def _is_zero(factors: Any) -> bool:
    """Whether one of two factors is zero, as a number or as a weight."""
    return any(_zero(each) for each in factors[:2])


def _zero(factor: Any) -> bool:
    if isinstance(factor, int | float):
        return factor == 0
    if isinstance(factor, StandIn):
        return factor.zero
    plain = isinstance(factor, torch.Tensor) and not factor.dim() and not factor.requires_grad
    return plain and not factor.item()


def _flat(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [leaf for each in value for leaf in _flat(each)]


def _each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in {list, tuple}:
        return type(value)(_each(each, change) for each in value)
    if isinstance(value, tuple) and hasattr(value, "__match_args__"):  # of torch.return_types
        return type(value)([_each(each, change) for each in value])
    return value
