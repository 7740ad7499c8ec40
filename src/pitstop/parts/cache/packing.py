"""Packing: a sample as bytes, its arrays apart from the rest.

Tensors and NumPy arrays lie as they are, each from a multiple of 64 bytes on; everything else is a
pickle of a few bytes that refers to them. The pickle is our own and never leaves this machine.

Layout of one sample::

    number of tensors, number of parts, length of each part     64-bit integers
    the pickle
    tensors, then NumPy arrays
"""

import io
import mmap
import pickle
from typing import Any

import numpy as np
import torch

ALIGNED = 64  # bytes: a cache line, and enough for every type
WORD = 8  # bytes of a 64-bit integer


def pack(sample: Any) -> list[memoryview]:
    """The parts of a sample, the head first, none of them copied where that can be avoided."""
    packer = _Packer()
    packer.dump(sample)
    parts = [packer.pickled.getbuffer(), *packer.tensors, *packer.arrays]
    head = [len(packer.tensors), len(parts), *(part.nbytes for part in parts)]
    return [np.array(head, dtype=np.int64).view(np.uint8).data, *parts]


def length(parts: list[memoryview]) -> int:
    """Bytes that the parts take, one behind the other."""
    return sum(aligned(part.nbytes) for part in parts)


def aligned(size_bytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-size_bytes // ALIGNED) * ALIGNED


def unpack(memory: mmap.mmap, start: int, copy: bool) -> Any:
    """The sample that begins here: with arrays of its own, or with views of the memory."""
    tensors, count = map(int, np.frombuffer(memory, np.int64, 2, start))
    lengths = np.frombuffer(memory, np.int64, count, start + 2 * WORD)
    at = start + aligned((2 + count) * WORD)
    parts: list[Any] = []
    for size in map(int, lengths):
        part = memoryview(memory)[at : at + size]
        parts.append(bytearray(part) if copy and parts else part)
        at += aligned(size)
    pickled, *arrays = parts
    return _Unpacker(pickled, arrays[:tensors], arrays[tensors:]).load()


class _Packer(pickle.Pickler):
    """Leaves arrays out of the pickle, in the order in which it meets them."""

    def __init__(self) -> None:
        self.pickled = io.BytesIO()
        self.tensors: list[memoryview] = []
        self.arrays: list[memoryview] = []
        super().__init__(self.pickled, protocol=5, buffer_callback=self._keep)

    def persistent_id(self, value: Any) -> Any:
        """Dense tensors on the CPU lie beside the pickle; all others are left to it."""
        if type(value) is not torch.Tensor or value.device.type != "cpu":
            return None
        if value.layout != torch.strided or value.requires_grad or value.is_quantized:
            return None
        flat = value.resolve_conj().resolve_neg().contiguous().reshape(-1)
        self.tensors.append(flat.view(torch.uint8).numpy().data)
        return len(self.tensors) - 1, str(value.dtype).removeprefix("torch."), tuple(value.shape)

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        """Whether pickle is to hold a NumPy array itself: one whose bytes lie scattered."""
        try:
            self.arrays.append(buffer.raw())
        except BufferError:
            return True
        return False


class _Unpacker(pickle.Unpickler):
    def __init__(self, pickled: Any, tensors: list[Any], arrays: list[Any]) -> None:
        self._tensors = tensors
        super().__init__(io.BytesIO(pickled), buffers=arrays)

    def persistent_load(self, reference: Any) -> Any:
        """A tensor over its bytes."""
        index, name, shape = reference
        dtype = getattr(torch, name)
        if not len(self._tensors[index]):
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._tensors[index], dtype=dtype).reshape(shape)
