"""Numbers: seeds, weights moved by a hair, and samples of what the models return.

None of this draws from the script's own random numbers.
"""

import ctypes
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pitstop.profile.patch import patch
from pitstop.tune.models import Models
from pitstop.tune.plan import OUTPUTS, VALUES

RELATIVE = {"tfloat32": 2.0**-10}  # torch has no type of that name; it keeps 10 bits, as float16
MOST_VALUES = 65_536  # of each tensor, evenly spread: enough for a PSNR to two decimals
SEEDS = 2**32  # that numpy takes
SEED_NAMES = ("seed", "a")
MOST_CALLS = 16  # outermost calls that are kept


def set_seeds(seed: int) -> None:
    """Seed all that draws; where the script seeds by itself, that comes later and prevails.

    With another seed than 0 its own seeds are moved by that: else such runs would all be the same.
    """
    for owners, name in _seeders():
        getattr(owners[0], name)(seed)
        if seed:
            patch(owners, name, partial(_moved, seed))


def _seeders() -> Iterator[tuple[tuple[Any, ...], str]]:
    yield (random,), "seed"
    yield (torch, torch.random), "manual_seed"
    with suppress(ImportError):  # scripts without it exist
        import numpy as np  # noqa: PLC0415

        yield (np.random,), "seed"


def _moved(by: int, original: Callable[..., Any]) -> Callable[..., Any]:
    def move(value: Any) -> Any:
        return (int(value) + by) % SEEDS if hasattr(value, "__index__") else value

    def seed(*given: Any, **named: Any) -> Any:
        known = {name: move(value) for name, value in named.items() if name in SEED_NAMES}
        return original(*map(move, given[:1]), *given[1:], **{**named, **known})

    return seed


def perturb(module: nn.Module, precision: str, signs: int = 1) -> None:
    """Move each weight up or down by one unit in the last place of ``precision``, or of its own.

    A weight in half precision cannot move by less than one of its own units, and its script rounds
    everything else to such units too.
    """
    finest = RELATIVE.get(precision) or torch.finfo(getattr(torch, precision)).eps
    drawn = torch.Generator().manual_seed(signs)
    for parameter in module.parameters():
        if parameter.is_floating_point():
            sign = torch.randint(0, 2, parameter.shape, generator=drawn) * 2 - 1
            share = max(finest, torch.finfo(parameter.dtype).eps)
            parameter.data.mul_(1 + share * sign.to(parameter))


def keep_outputs(models: Models, folder: Path, wanted: Callable[[], bool]) -> None:
    """Write samples of what the first outermost calls return, while wanted.

    That is an index, and values as float32.
    """
    index: list[dict[str, Any]] = []
    (folder / VALUES).write_bytes(b"")

    def around(call: Callable[..., Any], module: nn.Module, *given: Any, **options: Any) -> Any:
        result = call(*given, **options)
        if around.calls < MOST_CALLS and wanted():  # type: ignore[attr-defined]
            around.calls += 1  # type: ignore[attr-defined]
            for tensor in tensors_in(result):
                if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
                    continue  # there is nothing to read yet, and to wait would end the script
                _keep(tensor, type(module).__name__, index, folder)
        return result

    around.calls = 0  # type: ignore[attr-defined]
    models.around(around)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The floating-point tensors of a nested value, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []


def _keep(tensor: torch.Tensor, name: str, index: list[dict[str, Any]], folder: Path) -> None:
    stride = max(1, -(-tensor.numel() // MOST_VALUES))
    values = tensor.detach().reshape(-1)[::stride].to("cpu", torch.float32).contiguous()
    index.append({"module": name, "shape": list(tensor.shape), "values": values.numel()})
    with (folder / VALUES).open("ab") as file:
        file.write(ctypes.string_at(values.data_ptr(), 4 * values.numel()))  # numpy may be missing
    (folder / OUTPUTS).write_text(json.dumps(index), encoding="utf-8")
