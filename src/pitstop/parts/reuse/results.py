"""Results: what a module returns, taken apart into tensors and put together again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pitstop.core.errors import PitstopError

PLAIN = (bool, int, float, str, type(None))
Change = Callable[[torch.Tensor], torch.Tensor]


def changed(value: Any, change: Change) -> Any:
    """The same result with each tensor changed, in containers and objects of the same kind.

    Known are tuples, named tuples, lists, dictionaries, the outputs of transformers and diffusers,
    and diffusers' distribution of latents, which is kept as its mean and variance.
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(changed(each, change) for each in value))
    if type(value) in {tuple, list}:
        return type(value)(changed(each, change) for each in value)
    if isinstance(value, Mapping):
        named = {key: changed(each, change) for key, each in value.items()}
        return named if type(value) is dict else type(value)(**named)
    if _is_distribution(value):
        return type(value)(change(value.parameters))
    raise PitstopError(
        f"a {type(value).__name__} among the results: only tensors can be split or kept, and "
        "tuples, lists, dictionaries and model outputs of them"
    )


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors of a result, in the order in which ``changed`` meets them."""
    found: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    changed(value, keep)
    yield from found


def part(value: Any, begin: int, size: int, total: int) -> Any:
    """The result for some inputs of a batch of ``total``."""

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or len(tensor) != total:
            raise PitstopError(
                f"a result of {tuple(tensor.shape)} for {total} inputs: its first axis is not the "
                "batch, so it cannot be split"
            )
        return tensor[begin : begin + size]

    return changed(value, cut)


def joined(parts: Sequence[Any]) -> Any:
    """One result of a whole batch, from those of its inputs."""
    if len({tuple(each.shape[1:] for each in tensors(part)) for part in parts}) > 1:
        raise PitstopError(
            "results of several shapes cannot be one batch: pad inputs to one length"
        )
    same = zip(*map(tensors, parts), strict=True)
    return changed(parts[0], lambda _: torch.cat(next(same)))


def kind(value: Any) -> str:
    """The containers around the tensors, and all that is no tensor, as one line of text."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, PLAIN):
        return repr(value)
    name = type(value).__name__
    if isinstance(value, Mapping):
        return f"{name}({', '.join(f'{key!s}={kind(each)}' for key, each in value.items())})"
    if isinstance(value, tuple | list):
        return f"{name}({', '.join(map(kind, value))})"
    return name


def _is_distribution(value: Any) -> bool:
    """Whether it is a Gaussian over latents, made of one tensor with both moments."""
    names = ("parameters", "mean", "logvar", "sample")
    return all(hasattr(value, name) for name in names) and torch.is_tensor(value.parameters)
