"""Numbers: seeds, weights moved by a hair, and samples of what the models return.

None of this draws from the script's own random numbers.
"""

import ctypes
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import count
from math import gcd
from pathlib import Path
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.utils.data import get_worker_info

from pitstop.profile.hooks.patch import patch
from pitstop.tune.inside.models import Models
from pitstop.tune.plan import OUTPUTS, VALUES

RELATIVE = {"tfloat32": 2.0**-10}  # torch has no type of that name; it keeps 10 bits, as float16
MOST_VALUES = 65_536  # of each tensor, evenly spread: enough for a PSNR to two decimals
FEWER_VALUES = 4_096  # of calls after the first
SEEDS = 2**32  # that numpy takes
SEED_NAMES = ("seed", "a")
DEEPEST = 8  # of values in values: they may hold each other
FIRST_CALLS = 16  # outermost calls of a module that are kept; of later ones some


def set_seeds(seed: int) -> None:
    """Seed all that draws; where the script seeds by itself, that comes later and prevails.

    With another seed than 0 its own seeds are moved by that: else such runs would all be the same.
    """
    for owners, name in _seeders():
        getattr(owners[0], name)(seed)
        if seed:
            patch(owners, name, partial(_moved, seed))
    with suppress(ImportError):  # scripts without it exist
        import numpy as np  # noqa: PLC0415

        patch((np.random,), "default_rng", partial(_seeded, seed))


def _seeded(seed: int, original: Callable[..., Any]) -> Callable[..., Any]:
    """Generators that the script leaves to chance have a seed, another one each, in each worker."""
    numbers = count()

    def default_rng(given: Any = None) -> Any:
        if given is None:
            worker = get_worker_info()
            given = [seed, next(numbers), worker.id + 1 if worker else 0]
        return original(given)

    return default_rng


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


def perturb(
    parameters: Iterable[torch.Tensor], precision: str, signs: int = 1, units: int = 1
) -> None:
    """Move each weight up or down by units in the last place of ``precision``, or of its own.

    A weight in half precision cannot move by less than one of its own units, and its script rounds
    everything else to such units too.
    """
    finest = RELATIVE.get(precision) or torch.finfo(getattr(torch, precision)).eps
    drawn = torch.Generator().manual_seed(signs)
    for parameter in parameters:
        if parameter.is_floating_point():
            sign = torch.randint(0, 2, parameter.shape, generator=drawn) * 2 - 1
            share = max(units * finest, torch.finfo(parameter.dtype).eps)
            parameter.data.mul_(1 + share * sign.to(parameter))


class Perturbation:
    """Moves the weights of all models, and what only an optimizer holds, each of them once."""

    def __init__(self, precision: str, signs: int = 1, units: int = 1) -> None:
        self._how = precision, signs, units
        self._moved: dict[int, ref[torch.Tensor]] = {}

    def of_module(self, module: nn.Module) -> None:
        """Before its first call."""
        self._move(module.parameters())

    def of_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Before its first step: all models were called by then."""
        moved = False

        def move(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            nonlocal moved
            if not moved:  # to remove a hook here would end the script: others are being called
                moved = True
                self._move(each for group in optimizer.param_groups for each in group["params"])

        optimizer.register_step_pre_hook(move)

    def _move(self, parameters: Iterable[torch.Tensor]) -> None:
        new = [x for x in parameters if self._moved.get(id(x), lambda: None)() is not x]
        self._moved |= {id(each): ref(each) for each in new}
        perturb(new, *self._how)


def keep_outputs(
    models: Models,
    folder: Path,
    wanted: Callable[[], bool],
    called: Callable[[], None] = lambda: None,
) -> None:
    """Write samples of what outermost calls return, while wanted: an index, and float32 values.

    Of each module those are the first calls and, lest only later ones are wrong, every other of the
    next as many, every fourth of the next twice as many, and so on.
    """
    index: list[dict[str, Any]] = []
    calls: Counter[int] = Counter()
    (folder / VALUES).write_bytes(b"")

    def around(call: Callable[..., Any], module: Any, *given: Any, **options: Any) -> Any:
        result = call(*given, **options)
        if wanted():
            called()
            number = calls[id(module)]
            calls[id(module)] += 1
            most = MOST_VALUES if calls.total() <= FIRST_CALLS else FEWER_VALUES
            for tensor in tensors_in(result) if is_kept(number) else ():
                if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
                    continue  # there is nothing to read yet, and to wait would end the script
                name = getattr(module, "__name__", type(module).__name__)  # or a function's own
                _keep(tensor, name, most, index, folder)
        return result

    models.around(around, functions=True)


def is_kept(number: int) -> bool:
    """Whether the call of a module with this number, from 0, is."""
    return number % (1 << max(0, number.bit_length() - FIRST_CALLS.bit_length() + 1)) == 0


def tensors_in(value: Any, deep: int = DEEPEST) -> list[torch.Tensor]:
    """The tensors of a nested value, in order; complex ones as pairs of numbers."""
    if isinstance(value, torch.Tensor):
        return [torch.view_as_real(value.resolve_conj()) if value.is_complex() else value]
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, each.name, None) for each in fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and deep:
        return [tensor for each in value for tensor in tensors_in(each, deep - 1)]
    return []


def _keep(
    tensor: torch.Tensor, name: str, most: int, index: list[dict[str, Any]], folder: Path
) -> None:
    stride = max(1, -(-tensor.numel() // most))
    while stride > 1 and any(gcd(stride, side) > 1 for side in tensor.shape):
        stride += 1  # else it would meet the same channel each time
    values = tensor.detach().reshape(-1)[::stride].to("cpu", torch.float32).contiguous()
    index.append({"module": name, "shape": list(tensor.shape), "values": values.numel()})
    with (folder / VALUES).open("ab") as file:
        file.write(ctypes.string_at(values.data_ptr(), 4 * values.numel()))  # numpy may be missing
    (folder / OUTPUTS).write_text(json.dumps(index), encoding="utf-8")
