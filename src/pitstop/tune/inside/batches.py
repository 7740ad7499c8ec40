"""Batches: a checksum of each batch, to tell whether two runs of a script were given the same.

It runs in the script's process, in runs whose numbers count and not their time.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.hooks.patch import Undo, patch
from pitstop.profile.inspect.tensors import tensors_in
from pitstop.tune.plan import BATCHES

SAMPLED = 4096  # numbers of each tensor that are looked at one by one; its sum covers the rest
MOST = 1024  # batches of one run


def record(folder: Path, wanted: Callable[[], bool]) -> Undo:
    """Write a checksum for each batch that a DataLoader gives, while wanted; return how to stop."""
    count = [0]

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch(iterator: Any) -> Any:
            batch = original(iterator)
            if count[0] < MOST and wanted():
                count[0] += 1
                with (folder / BATCHES).open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(checksum(batch)) + "\n")
            return batch

        return fetch

    return patch((internals.LoaderIterator,), "__next__", build)


def checksum(batch: Any) -> str:
    """The same for batches of equal content; for others another, with near certainty."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors_in(batch):
        digest.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        if tensor.numel() and tensor.layout == torch.strided:
            flat = tensor.detach().reshape(-1)
            few = flat[:: -(-flat.numel() // SAMPLED)].tolist()
            digest.update(repr((few, flat.to(torch.float64).sum().item())).encode())
    return digest.hexdigest()
