"""Encoded once: what a frozen module computes is kept, and not computed again.

Why plain PyTorch is slow here: a training of LoRA weights sends the same captions through the same
frozen text encoders in every epoch, and the same pictures through the same VAE. For a FLUX-shaped
model the T5 encoder is 4.8 of 79 TFLOP a step, and its weights are about 10 GB that nothing else
needs.

Inputs are told apart by their bytes, or by a key of the caller's. Results lie in host memory, up to
a budget, and in a folder where one is given: safetensors files with a checksum, for one set of
weights and no other. Distributions of latents are kept as mean and variance, so that sampling
from them stays random.

The floor: a hit is one copy of the result to the device. Refused: a module in training mode, since
dropout and running statistics give another result each time; inputs that need a gradient. The twin
is the module itself.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes, count
from pitstop.parts.reuse import results
from pitstop.parts.reuse.content import digest_of, digest_of_weights

BUDGET_BYTES = 4 * 2**30  # of host memory: about a thousand captions of T5


class EncodedOnce:
    """A callable in place of a frozen module, or of one of its methods."""

    def __init__(
        self, call: Callable[..., Any], module: nn.Module, folder: Path | None, budget_bytes: int
    ) -> None:
        self.hits = 0
        self.misses = 0
        self._call: Callable[..., Any] | None = call
        self._module: nn.Module | None = module
        self._name = type(module).__name__
        self._known: dict[str, Any] = {}
        self._kinds: dict[str, Any] = {}  # a result of each kind: what tensors are put into
        self._held_bytes = 0
        self._budget_bytes = budget_bytes
        self._refuse_training()
        version = digest_of_weights(module) if folder else ""
        self._folder = folder / f"{self._name}-{version}" if folder else None

    def __call__(self, *inputs: Any, key: str | None = None, **named: Any) -> Any:
        """The result for these inputs; ``key`` names them where hashing them is not wanted."""
        self._refuse_training()
        _refuse_gradients(*inputs, *named.values())
        name = digest_of(key) if key is not None else digest_of(inputs, named)
        kept = self._known.get(name)
        if kept is None and (kept := self._read(name)) is not None:
            self._keep(name, kept)
        if kept is not None:
            self.hits += 1
            device = _device((*inputs, *named.values()))
            return results.changed(kept, lambda each: each.to(device, copy=True))
        self.misses += 1
        result = self._compute(inputs, named)
        kept = results.changed(result, lambda each: each.detach().to("cpu", copy=True))
        self._kinds.setdefault(results.kind(kept), kept)
        self._keep(name, kept)
        self._write(name, kept)
        return result

    def release(self) -> None:
        """Forget the module, so that its memory is free; from now on only hits are answered."""
        self._call = self._module = None

    def __repr__(self) -> str:
        kept = count(len(self._known), "result")
        return f"EncodedOnce({self._name}: {kept}, {binary_bytes(self._held_bytes)})"

    def _compute(self, inputs: Any, named: Any) -> Any:
        if self._call is None:
            raise PitstopError(
                f"{self._name} was released, and these inputs were never encoded: encode them first"
            )
        with torch.no_grad():
            return self._call(*inputs, **named)

    def _refuse_training(self) -> None:
        if self._module is not None and any(each.training for each in self._module.modules()):
            raise PitstopError(
                f"{self._name} is in training mode, so its result may differ each time: "
                "call eval() first"
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
        tensors = save({key: each.contiguous() for key, each in values.items()})
        content = results.kind(kept).encode() + b"\n" + tensors
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{name}.{uuid4().hex}.part"
        part.write_bytes(hashlib.blake2b(content).digest() + content)
        part.replace(self._folder / name)

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
        found = iter([values[str(number)] for number in range(len(values))])
        return results.changed(example, lambda _: next(found))


def encoded_once(
    module: nn.Module,
    method: str = "__call__",
    *,
    folder: str | os.PathLike[str] | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> EncodedOnce:
    """A callable that computes each result of a frozen module once.

    encode = encoded_once(text_encoder)
    latents = encoded_once(vae, "encode", folder="cache")

    ``folder`` keeps results from run to run, for these weights only. ``budget_bytes`` of results
    are held in memory; those beyond it are computed, or read from the folder, each time.
    """
    call = module if method == "__call__" else getattr(module, method)
    return EncodedOnce(call, module, Path(folder) if folder else None, budget_bytes)


def _device(values: Any) -> torch.device | None:
    return next((each.device for each in values if isinstance(each, torch.Tensor)), None)


def _refuse_gradients(*values: Any) -> None:
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in values):
        raise PitstopError("an input needs a gradient, which a kept result has none of: detach it")
