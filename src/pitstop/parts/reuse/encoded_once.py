"""Encoded once: what a frozen module computes is kept, and not computed again.

Why plain PyTorch is slow here: a training of LoRA weights sends the same captions through the same
frozen text encoders in every epoch, and the same pictures through the same VAE. For a FLUX-shaped
model the T5 encoder is 4.8 of 79 TFLOP a step, and its weights are about 10 GB that nothing else
needs.

Inputs are told apart by their bytes, or by a key of the caller's. With ``rows`` each sample of a
batch is kept alone, as a loader that shuffles puts others beside it every time; those not yet known
go through the module together. Results lie in host memory or ``on`` a device, up to a budget, and
in a folder where one is given: safetensors files with a checksum, for one set of weights and no
other. Distributions of latents are kept as mean and variance, so that sampling stays random.

The floor: a hit is one copy of the result to the device. The numbers are the same to the last bit;
with ``rows`` up to rounding, since kernels are chosen by shape. Refused: a module in training mode,
since dropout and running statistics give another result each time; weights that were written to
since; inputs that need a gradient. The twin is the module itself.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes, count
from pitstop.parts.reuse import results
from pitstop.parts.reuse.batched_calls import refuse_batch_statistics
from pitstop.parts.reuse.content import digest_of, digest_of_weights

BUDGET_BYTES = 4 * 2**30  # of host memory: about a thousand captions of T5


class EncodedOnce:
    """A callable in place of a frozen module, or of one of its methods."""

    def __init__(
        self,
        call: Callable[..., Any],
        module: nn.Module,
        *,
        folder: Path | None,
        rows: bool,
        on: torch.device,
        budget_bytes: int,
    ) -> None:
        self.hits = 0
        self.misses = 0
        self._call: Callable[..., Any] | None = call
        self._module: nn.Module | None = module
        self._name = type(module).__name__
        self._rows, self._on, self._budget_bytes = rows, on, budget_bytes
        self._known: dict[str, Any] = {}
        self._kinds: dict[str, Any] = {}  # a result of each kind: what tensors are put into
        self._held_bytes = 0
        self._state = _state(module)
        self._made_on: torch.device | None = None
        self._refuse_another_module()
        if rows:
            refuse_batch_statistics(module)
        version = digest_of_weights(module) if folder else ""
        self._folder = folder / f"{self._name}-{version}" if folder else None

    def __call__(self, *inputs: Any, key: Any = None, **named: Any) -> Any:
        """The result for these inputs; ``key`` names them where hashing them is not wanted.

        With ``rows``, ``key`` is a list with a name for each.
        """
        self._refuse_another_module()
        _refuse_gradients(*inputs, *named.values())
        names = self._names(inputs, named, key)
        found = {name: self._find(name) for name in names}
        missing = {name: place for place, name in enumerate(names) if found[name] is None}
        self.hits += len(names) - len(missing)
        self.misses += len(missing)
        if missing:
            made = self._compute(inputs, named, list(missing.values()), len(names))
            for name, each in zip(missing, made, strict=True):
                found[name] = each
                self._kinds.setdefault(results.kind(each), each)
                self._keep(name, each)
                self._write(name, each)
        device = _device((*inputs, *named.values())) or self._made_on
        kept = [found[name] for name in names]
        whole = results.joined(kept) if len(kept) > 1 else kept[0]
        return results.changed(whole, lambda each: each.to(device, copy=len(kept) == 1))

    def release(self) -> None:
        """Forget the module, so that its memory is free; from now on only hits are answered."""
        self._call = self._module = None

    def __repr__(self) -> str:
        kept = count(len(self._known), "result")
        return f"EncodedOnce({self._name}: {kept}, {binary_bytes(self._held_bytes)})"

    def _names(self, inputs: Any, named: dict[str, Any], key: Any) -> list[str]:
        """One for each row, or one for all."""
        if not self._rows:
            return [digest_of(key) if key is not None else digest_of(inputs, named)]
        count = _count((*inputs, *named.values()))
        if key is not None:
            if not isinstance(key, list | tuple) or len(key) != count:
                raise PitstopError(f"key= needs a list with a name for each of {count} rows")
            return [digest_of(each) for each in key]
        return [digest_of(*_chosen(inputs, named, [row], count)) for row in range(count)]

    def _find(self, name: str) -> Any:
        kept = self._known.get(name)
        if kept is None and (kept := self._read(name)) is not None:
            self._keep(name, kept)
        return kept

    def _compute(
        self, inputs: Any, named: dict[str, Any], places: list[int], count: int
    ) -> list[Any]:
        """What the module says about the rows at ``places``, or about all there is."""
        if self._call is None:
            raise PitstopError(
                f"{self._name} was released, and these inputs were never encoded: encode them first"
            )
        if self._rows:
            inputs, named = _chosen(inputs, named, places, count)
        with torch.no_grad():
            result = self._call(*inputs, **named)
        self._made_on = _device(results.tensors(result))
        total = len(places)
        parts = (
            [results.part(result, row, 1, total) for row in range(total)]
            if self._rows
            else [result]
        )
        return [
            results.changed(each, lambda tensor: tensor.detach().to(self._on, copy=True))
            for each in parts
        ]

    def _refuse_another_module(self) -> None:
        if self._module is None:
            return
        if any(each.training for each in self._module.modules()):
            raise PitstopError(
                f"{self._name} is in training mode, so its result may differ each time: "
                "call eval() first"
            )
        if self._state != _state(self._module):
            raise PitstopError(
                f"the weights of {self._name} have changed since, and its results with them: "
                "call encoded_once again"
            )

    def _keep(self, name: str, kept: Any) -> None:
        size_bytes = sum(each.nbytes for each in results.tensors(kept))
        if self._held_bytes + size_bytes <= self._budget_bytes:
            self._known[name] = kept
            self._held_bytes += size_bytes

    def _write(self, name: str, kept: Any) -> None:
        """One file, whole or not at all: a checksum, the kind of result, its tensors."""
        if self._folder is None:
            return
        from safetensors.torch import save  # noqa: PLC0415 only where a folder is given

        values = {str(number): each for number, each in enumerate(results.tensors(kept))}
        tensors = save({key: each.cpu().contiguous() for key, each in values.items()})
        content = results.kind(kept).encode() + b"\n" + tensors
        store.write_bytes(self._folder / name, hashlib.blake2b(content).digest() + content)

    def _read(self, name: str) -> Any:
        """What the folder has. None for a damaged file, and for a kind not yet met in this run."""
        if self._folder is None or not self._kinds or not (self._folder / name).is_file():
            return None
        from safetensors.torch import load  # noqa: PLC0415 likewise

        whole = (self._folder / name).read_bytes()
        size = hashlib.blake2b().digest_size
        digest, content = whole[:size], whole[size:]
        kind, _, tensors = content.partition(b"\n")
        example = self._kinds.get(kind.decode(errors="replace"))
        if hashlib.blake2b(content).digest() != digest or example is None:
            return None
        values = load(tensors)
        found = iter([values[str(number)].to(self._on) for number in range(len(values))])
        return results.changed(example, lambda _: next(found))


def encoded_once(
    module: nn.Module,
    method: str = "__call__",
    *,
    folder: str | os.PathLike[str] | None = None,
    rows: bool = False,
    on: str | torch.device = "cpu",
    budget_bytes: int = BUDGET_BYTES,
) -> EncodedOnce:
    """A callable that computes each result of a frozen module once.

    encode = encoded_once(text_encoder, rows=True)
    latents = encoded_once(vae, "encode", folder="cache")

    ``rows`` keeps each sample of a batch alone. ``folder`` keeps results from run to run, for these
    weights only. ``budget_bytes`` of results are held in memory, ``on`` this device; those beyond
    it are computed, or read from the folder, each time.
    """
    if not isinstance(module, nn.Module):
        raise PitstopError(f"encoded_once takes a module, not a {type(module).__name__}")
    if not callable(call := module if method == "__call__" else getattr(module, method, None)):
        raise PitstopError(f"{type(module).__name__} has no method {method!r}")
    place = Path(folder) if folder else None
    return EncodedOnce(
        call, module, folder=place, rows=rows, on=torch.device(on), budget_bytes=budget_bytes
    )


def _state(module: nn.Module) -> list[tuple[torch.dtype, int]]:
    """Type of each parameter, and how often it was written to; moves do not count."""
    return [(each.dtype, internals.writes(each)) for each in module.parameters()]


def _count(values: Any) -> int:
    """How many samples there are: the length of the first tensor or list."""
    for each in values:
        if isinstance(each, torch.Tensor) and each.dim():
            return len(each)
        if isinstance(each, list):
            return len(each)
    raise PitstopError("rows=True needs a tensor or a list among the inputs, with a row for each")


def _chosen(
    inputs: Any, named: dict[str, Any], places: list[int], count: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """These rows of all inputs that have ``count`` of them; what else there is goes along."""

    def rows_of(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() and len(value) == count:
            return value[places]
        if isinstance(value, list) and len(value) == count:
            return [value[place] for place in places]
        return value

    return tuple(map(rows_of, inputs)), {name: rows_of(value) for name, value in named.items()}


def _device(values: Any) -> torch.device | None:
    return next((each.device for each in values if isinstance(each, torch.Tensor)), None)


def _refuse_gradients(*values: Any) -> None:
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in values):
        raise PitstopError("an input needs a gradient, which a kept result has none of: detach it")
