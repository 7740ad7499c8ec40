"""Hazards: operations that can turn finite numbers into others, and how each is told.

The saved tensors of a node show it: a logarithm keeps what it was taken of, a division what it
divided by, a softmax its result. Each check answers with words for people, or with nothing.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Saved = Mapping[str, torch.Tensor]
Check = Callable[[Any, Saved], str]

MEAN = 1  # how autograd notes that a loss is averaged; one that is not has no total weight
# They let through only part of what they get: what goes into one need not come out of it.
MASKS = (
    "Where",
    "Clamp",
    "MaskedFill",
    "MaskedScatter",
    "MaskedSelect",
    "Index",
    "Relu",
    "Threshold",
    "NanToNum",
    "Minimum",
    "Maximum",
    "Hardtanh",
)
# Their gradient is infinite where their value is finite: at 0, or at 1 and -1.
STEEP = ("SqrtBackward", "PowBackward", "AcosBackward", "AsinBackward", "Atan2Backward")
# Theirs is too, but then so is their value, unless a mask hides it.
STEEP_IF_MASKED = ("LogBackward", "DivBackward", "ReciprocalBackward", "RsqrtBackward", "Exp")


def said(node: Any) -> str:
    """The operation as people say it: ``log`` for ``LogBackward0``."""
    name = node if isinstance(node, str) else node.name()
    stem = name.rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in stem)
    return words.lstrip("_")


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all numbers are; without a temporary of the tensor's size."""
    if not tensor.is_floating_point() or not tensor.numel() or tensor.is_sparse:
        return True
    low, high = torch.aminmax(tensor)
    return math.isfinite(float(low)) and math.isfinite(float(high))


def has_nan(tensor: torch.Tensor) -> bool:
    """Whether a number is not one; infinity alone may be meant, as in a mask."""
    if not tensor.is_floating_point() or not tensor.numel() or tensor.is_sparse:
        return False
    return math.isnan(float(torch.aminmax(tensor)[0]))


def explain(node: Any, tensors: Saved) -> str:
    """How this operation made bad numbers of good ones; empty where nothing proves it."""
    check = CHECKS.get(_kind(node))
    return check(node, tensors) if check else ""


def explain_operand(operation: str, operand: torch.Tensor) -> str:
    """How an operation of this name made bad numbers of this operand; empty: nothing proves it."""
    kind, role = BY_NAME.get(operation, ("", ""))
    return CHECKS[kind](None, {role: operand}) if kind else ""


def suppose(node: Any) -> str:
    """How it must have been, if what went into the operation was finite."""
    return SUPPOSED.get(_kind(node), "")


def _kind(node: Any) -> str:
    return str(node.name()).rstrip("0123456789").removesuffix("Backward")


def is_fractional_power(node: Any) -> bool:
    """Whether a power has an infinite gradient at zero: an exponent below 1 that is not 0."""
    exponent = getattr(node, "_saved_exponent", None)
    return isinstance(exponent, int | float) and exponent < 1 and exponent != 0


def _of(
    name: str, is_bad: Callable[[torch.Tensor], torch.Tensor], words: str, preposition: str = "of"
) -> Check:
    """A check that counts the bad numbers in one saved tensor."""

    def check(_: Any, tensors: Saved) -> str:
        tensor = tensors.get(name)
        count = int(is_bad(tensor).sum()) if tensor is not None else 0
        numbers = "a number that is" if count == 1 else f"{count} numbers that are"
        return f"{preposition} {numbers} {words}" if count else ""

    return check


def _zero(tensor: torch.Tensor) -> torch.Tensor:
    return tensor == 0


def _overflows(words: str) -> Check:
    """A check that the result, which the node keeps, is infinite; what is no number came in."""

    def check(_: Any, tensors: Saved) -> str:
        result = tensors.get("result")
        bad = result is not None and not is_finite(result) and not has_nan(result)
        return words if bad else ""

    return check


def _mean(node: Any, _: Saved) -> str:
    return "of no number at all" if getattr(node, "_saved_self_sym_numel", 1) == 0 else ""


def _spread(_: Any, tensors: Saved) -> str:
    values = tensors.get("self")
    return "of a single number" if values is not None and values.numel() <= 1 else ""


def _targets(node: Any, tensors: Saved) -> str:
    weight = tensors.get("total_weight")
    averages = getattr(node, "_saved_reduction", MEAN) == MEAN
    empty = averages and weight is not None and weight.numel() == 1 and float(weight) == 0
    return "over no target: all of them are ignored" if empty else ""


def _power(node: Any, tensors: Saved) -> str:
    exponent = getattr(node, "_saved_exponent", None)
    if not isinstance(exponent, int | float):
        return ""
    if exponent < 0:
        return _of("self", _zero, "zero, to a negative power")(node, tensors)
    if exponent != int(exponent):
        return _of("self", lambda x: x < 0, "below zero, to a fractional power")(node, tensors)
    return ""


CHECKS: dict[str, Check] = {
    "Log": _of("self", lambda x: x <= 0, "zero or less"),
    "Log2": _of("self", lambda x: x <= 0, "zero or less"),
    "Log10": _of("self", lambda x: x <= 0, "zero or less"),
    "Log1P": _of("self", lambda x: x <= -1, "-1 or less"),
    "Xlogy": _of("other", lambda x: x < 0, "below zero"),
    "Div": _of("other", _zero, "zero", "by"),
    "Reciprocal": _overflows("of zero"),
    "Rsqrt": _overflows("of zero"),
    "Pow": _power,
    "Exp": _overflows("of numbers too large for it"),
    "Expm1": _overflows("of numbers too large for it"),
    "Acos": _of("self", lambda x: x.abs() > 1, "beyond 1"),
    "Asin": _of("self", lambda x: x.abs() > 1, "beyond 1"),
    "Mean": _mean,
    "Std": _spread,
    "Var": _spread,
    "NllLoss": _targets,
    "NllLoss2D": _targets,
}
BY_NAME = {  # the check of an operation as the source names it, and its operand's role there
    "log": ("Log", "self"),
    "log2": ("Log2", "self"),
    "log10": ("Log10", "self"),
    "div": ("Div", "other"),
    "std": ("Std", "self"),
    "var": ("Var", "self"),
}
SUPPOSED = {
    "Sqrt": "of numbers below zero",
    "Rsqrt": "of numbers below zero",
    "Softmax": "of a row that is minus infinity throughout",
    "LogSoftmax": "of a row that is minus infinity throughout",
}
