"""Tensors: shape, type and values of npy, npz, safetensors and torch files; no code of theirs."""

import ast
import json
import math
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

from pitstop.data.torch_file import torch_arrays

LARGEST_HEADER_BYTES = 16_000_000  # names and shapes; more of it is not a header
MOST_VALUES_BYTES = 64_000_000  # of a file, looked at for NaN; larger ones are read in part
MAGIC = b"\x93NUMPY"
# What each name of a type means: bytes of one number, and for floats the bits of the exponent.
TYPES = {
    "F64": ("float64", 8), "F32": ("float32", 4), "F16": ("float16", 2), "BF16": ("bfloat16", 2),
    "I64": ("int64", 8), "I32": ("int32", 4), "I16": ("int16", 2), "I8": ("int8", 1),
    "U64": ("uint64", 8), "U32": ("uint32", 4), "U16": ("uint16", 2), "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}  # fmt: skip
EXPONENTS = {  # a float is not finite where all bits of its exponent are set
    "float64": ("u8", 0x7FF0_0000_0000_0000),
    "float32": ("u4", 0x7F80_0000),
    "float16": ("u2", 0x7C00),
    "bfloat16": ("u2", 0x7F80),
}


class UnreadableError(Exception):
    """What is wrong with a file, in a few words."""


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a file: what it is, and its bytes as they lie there."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes = b""
    swapped: bool = False  # most significant byte first

    @property
    def numbers(self) -> int:
        """How many it holds."""
        return math.prod(self.shape)


def arrays_of(data: bytes, suffix: str) -> list[Array]:
    """The arrays of a whole file."""
    if suffix == ".npy":
        return [_npy(BytesIO(data))]
    if suffix == ".npz":
        return list(_npz(data))
    if suffix == ".safetensors":
        return list(_safetensors(data))
    try:
        return [Array(*each) for each in torch_arrays(data)]
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def bad_number(array: Array) -> str:
    """``NaN`` or ``Inf`` where a number is not finite; empty where all are, or numpy is missing."""
    if array.dtype not in EXPONENTS:
        return ""
    try:
        import numpy as np  # noqa: PLC0415 the rest works without it
    except ImportError:
        return ""
    code, mask = EXPONENTS[array.dtype]
    width = int(code[1])
    usable = min(len(array.data), MOST_VALUES_BYTES) // width * width
    bits = np.frombuffer(array.data[:usable], (">" if array.swapped else "<") + code)
    special = bits[(bits & mask) == mask]
    if not special.size:
        return ""
    mantissa = (mask & -mask) - 1  # all bits below the exponent: none of them is set in Inf
    return "NaN" if (special & mantissa).any() else "Inf"


def all_zero(array: Array) -> bool:
    """Whether every byte of it is zero, as in a tensor of zeros; not of an empty one."""
    return bool(array.data) and array.data.count(0) == len(array.data)


def _npy(stream: BinaryIO) -> Array:
    start = stream.read(8)
    if start[:6] != MAGIC:
        raise UnreadableError("no npy header")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > LARGEST_HEADER_BYTES:
        raise UnreadableError("no npy header")
    try:
        header = ast.literal_eval(stream.read(length).decode("latin-1"))
        descr, shape = header["descr"], tuple(int(size) for size in header["shape"])
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        raise UnreadableError("no npy header") from None
    if not isinstance(descr, str) or "O" in descr:
        raise UnreadableError("holds Python objects, which only unpickling reads")
    name, size = _numpy_type(descr)
    data = stream.read()
    if size and len(data) < size * math.prod(shape):
        raise UnreadableError("cut short")
    return Array(name, shape, data, descr.startswith(">"))


def _numpy_type(descr: str) -> tuple[str, int]:
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}
    kind, digits = descr.lstrip("<>|=")[:1], descr.lstrip("<>|=")[1:]
    size = int(digits) if digits.isdigit() else 0
    name = kinds.get(kind, descr)
    return (name if kind == "b" else f"{name}{8 * size}"), size


def _npz(data: bytes) -> Iterator[Array]:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > 16 * MOST_VALUES_BYTES:
                raise UnreadableError("would unpack to more than a gigabyte")
            for info in archive.infolist():
                if info.filename.endswith(".npy"):
                    yield _npy(BytesIO(archive.read(info)))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UnreadableError(_zip_trouble(error)) from None


def _zip_trouble(error: Exception) -> str:
    return "wrong checksum" if "CRC" in str(error) else "cut short"


def _safetensors(data: bytes) -> Iterator[Array]:
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else 0
    if not 0 < length <= min(LARGEST_HEADER_BYTES, len(data) - 8):
        raise UnreadableError("cut short")
    try:
        header: dict[str, Any] = json.loads(data[8 : 8 + length])
        entries = [value for name, value in header.items() if name != "__metadata__"]
        for entry in entries:
            begin, end = entry["data_offsets"]
            if 8 + length + end > len(data):
                raise UnreadableError("cut short")
            name, _ = TYPES.get(entry["dtype"], (entry["dtype"].lower(), 0))
            yield Array(name, tuple(entry["shape"]), data[8 + length + begin : 8 + length + end])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnreadableError("no safetensors header") from None
