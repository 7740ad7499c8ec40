"""What scores are made of, and what operations on them make of that.

A note takes the recipe of scores, their shape, the other arguments of an operation, and where among
them the scores stood. It answers what the recipe is then; None where the operation is not a part of
attention as ``window_attention`` knows it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Maybe = torch.Tensor | None
Scale = float | torch.Tensor
LONGEST = 5  # axes: Swin sees windows as pictures x positions while it adds the mask


class Recipe(NamedTuple):
    """What the scores are made of, as ``window_attention`` takes it."""

    query: torch.Tensor
    key: torch.Tensor  # transposed, as the product took it
    scale: Scale = 1.0
    bias: Maybe = None  # heads x rows x columns, or less
    mask: Maybe = None  # positions x rows x columns
    softmaxed: bool = False


class Noted(NamedTuple):
    """The recipe after an operation."""

    recipe: Recipe
    shape: torch.Size
    same_memory: bool = False  # a view, for whoever changes it in place


Others = tuple[Any, ...]
Note = Callable[[Recipe, torch.Size, Others, int, dict[str, Any]], Noted | None]


def add(
    recipe: Recipe, shape: torch.Size, others: Others, _place: int, more: dict[str, Any]
) -> Noted | None:
    """A bias that all windows share, or a mask by the window's position."""
    if recipe.softmaxed or more or len(others) != 1 or not _fits(others[0], recipe, shape):
        return None
    added = others[0]
    sizes = (*[1] * (len(shape) - added.dim()), *added.shape)
    windows, heads = sizes[:-3], sizes[-3]
    if set(windows) <= {1}:
        bias = added.reshape(sizes[-3:])
        whole = bias if recipe.bias is None else recipe.bias + bias
        return Noted(recipe._replace(bias=whole), shape)
    mask = _mask(added, sizes, shape) if heads == 1 and len(shape) > 3 else None
    if mask is None:
        return None
    if recipe.mask is not None:
        if recipe.mask.shape != mask.shape:
            return None
        mask = recipe.mask + mask
    return Noted(recipe._replace(mask=mask), shape)


def _mask(added: torch.Tensor, sizes: tuple[int, ...], shape: torch.Size) -> Maybe:
    """Of shape positions x rows x columns; none where it is learned, or each window has its own."""
    first, positions = (sizes[0], sizes[1]) if len(shape) == LONGEST else (1, sizes[0])
    if added.requires_grad or first != 1 or positions == 1:
        return None
    return added.reshape(positions, *sizes[-2:]).expand(positions, *shape[-2:])


def multiply(
    recipe: Recipe, shape: torch.Size, others: Others, _place: int, more: dict[str, Any]
) -> Noted | None:
    """A scale: a number, or one for each head."""
    untouched = recipe.bias is None and recipe.mask is None and not recipe.softmaxed
    if not untouched or more or len(others) != 1:
        return None
    factor = others[0]
    if isinstance(factor, torch.Tensor):
        each_head = len(shape) == 4 and all(each == 1 for each in factor.shape[-2:])
        if not each_head or not _fits(factor, recipe, shape):
            return None
    elif type(factor) not in {int, float}:
        return None
    return Noted(recipe._replace(scale=recipe.scale * factor), shape)


def divide(
    recipe: Recipe, shape: torch.Size, others: Others, place: int, more: dict[str, Any]
) -> Noted | None:
    """A scale."""
    if place != 0 or len(others) != 1 or type(others[0]) not in {int, float} or not others[0]:
        return None
    return multiply(recipe, shape, (1 / others[0],), 0, more)


def view(
    recipe: Recipe, shape: torch.Size, others: Others, _place: int, more: dict[str, Any]
) -> Noted | None:
    """Windows as pictures x positions, and back."""
    if more or not others:
        return None
    asked = tuple(others) if len(others) > 1 or isinstance(others[0], int) else tuple(others[0])
    if not all(type(each) is int for each in asked):
        return None
    sizes = _without_gap(asked, shape.numel())
    if sizes is None or len(sizes) < 3 or sizes[-3:] != tuple(shape[-3:]):
        return None
    if len(sizes) == len(shape) == 3:
        return Noted(recipe, shape, True)
    if min(len(sizes), len(shape)) < 4 or max(len(sizes), len(shape)) > LONGEST:
        return None
    return Noted(recipe, torch.Size(sizes), True)


def _without_gap(asked: tuple[int, ...], count: int) -> tuple[int, ...] | None:
    """Sizes with -1 filled in; None where they do not fit."""
    known = 1
    for each in asked:
        known *= 1 if each == -1 else each
    if asked.count(-1) > 1 or known <= 0 or count % known:
        return None
    sizes = tuple([count // known if each == -1 else each for each in asked])
    return sizes if -1 in asked or known == count else None


def softmax(
    recipe: Recipe, shape: torch.Size, others: Others, _place: int, more: dict[str, Any]
) -> Noted | None:
    """Over the last axis."""
    named = {"dim", "dtype", "_stacklevel"}
    if recipe.softmaxed or len(others) > 1 or not set(more) <= named:
        return None
    axis = others[0] if others else more.get("dim")
    dtype = more.get("dtype") or torch.float32
    if axis not in {-1, len(shape) - 1} or not dtype.is_floating_point:
        return None
    return Noted(recipe._replace(softmaxed=True), shape)


def dropout(
    recipe: Recipe, shape: torch.Size, others: Others, place: int, more: dict[str, Any]
) -> Noted | None:
    """Where it is at rest: it returns what it was given."""
    said = {"p": 0.5, "training": True, "inplace": False}
    said |= dict(zip(said, others, strict=False)) | more
    works = bool(said["training"] and said["p"])
    return None if works or place != 0 else Noted(recipe, shape, True)


def cast(
    recipe: Recipe, shape: torch.Size, others: Others, place: int, more: dict[str, Any]
) -> Noted | None:
    """To another floating type: both fused ways keep scores in float32."""
    if place != 0 or more or len(others) > 1:
        return None
    to = others[0] if others else torch.float32  # or float64, by name
    dtype = to if isinstance(to, torch.dtype) else getattr(to, "dtype", None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        return None
    same_place = not isinstance(to, torch.Tensor) or to.device == recipe.query.device
    return Noted(recipe, shape, True) if same_place else None


def keep(
    recipe: Recipe, shape: torch.Size, others: Others, _place: int, more: dict[str, Any]
) -> Noted | None:
    """What lies in one piece already."""
    return None if others or more else Noted(recipe, shape, True)


def _fits(tensor: Any, recipe: Recipe, shape: torch.Size) -> bool:
    """Whether it is a tensor that an operation with the scores only makes larger."""
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.is_floating_point()
        and tensor.device == recipe.query.device
        and tensor.dim() <= len(shape)
        and all(
            one in {1, other}
            for one, other in zip(reversed(tensor.shape), reversed(shape), strict=False)
        )
    )


NOTES: dict[str, Note] = {
    "add": add,
    "radd": add,
    "mul": multiply,
    "rmul": multiply,
    "div": divide,
    "truediv": divide,
    "view": view,
    "reshape": view,
    "softmax": softmax,
    "dropout": dropout,
    "to": cast,
    "type_as": cast,
    "float": cast,
    "double": cast,
    "contiguous": keep,
}
PRODUCTS = {"matmul", "bmm", "einsum"}  # those with the values end the waiting
