"""Torch files: what ``torch.save`` wrote, read as ``weights_only`` does, without torch.

Such a file is a zip with a pickle that says how to rebuild the tensors, and their bytes beside
it. Our unpickler gives stand-ins for the few names that tensors need. Any name that torch.load
refuses ends the reading, so no code of the file ever runs.
"""

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

LARGEST_PICKLE_BYTES = 16_000_000  # names and shapes; the numbers lie outside of it
LARGEST_UNPACKED_BYTES = 2**31  # torch stores without packing: more is a trap
STORAGES = {
    "DoubleStorage": ("float64", 8), "FloatStorage": ("float32", 4), "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2), "LongStorage": ("int64", 8), "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2), "CharStorage": ("int8", 1), "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1), "ComplexFloatStorage": ("complex64", 8),
}  # fmt: skip
HARMLESS = {  # what torch.load knows beside its own
    ("collections", "Counter"), ("builtins", "set"), ("builtins", "complex"),
    ("builtins", "bytearray"),
}  # fmt: skip
Found = tuple[str, tuple[int, ...], bytes]


@dataclass(frozen=True, slots=True)
class _StorageType:
    name: str
    width: int


@dataclass(frozen=True, slots=True)
class _Storage:
    kind: _StorageType
    key: str


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]


def _tensor(storage: Any, offset: Any, shape: Any, *_: Any) -> _Tensor:
    if not isinstance(storage, _Storage) or not isinstance(offset, int):
        raise pickle.UnpicklingError("a tensor without a storage")
    return _Tensor(storage, offset, tuple(int(size) for size in shape))


def _parameter(tensor: Any, *_: Any) -> Any:
    return tensor


class _Ignored(dict[Any, Any]):
    """Stands for what torch.load knows and is no tensor: a size, a type, a device."""

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __setstate__(self, _: Any) -> None: ...


class _Unpickler(pickle.Unpickler):
    """Rebuilds containers and stand-ins for tensors; refuses names that torch.load refuses."""

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in, or the end."""
        if module == "torch" and name in STORAGES:
            return _StorageType(*STORAGES[name])
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_parameter"): _parameter,
        }
        if (module, name) in known:
            return known[module, name]
        if module.partition(".")[0] == "torch" or (module, name) in HARMLESS:
            return _Ignored
        raise pickle.UnpicklingError(f"holds {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        """What the pickle calls a storage: its type and the file with its bytes."""
        if not (isinstance(pid, tuple) and len(pid) >= 3 and isinstance(pid[1], _StorageType)):
            raise pickle.UnpicklingError("a storage of an unknown kind")
        return _Storage(pid[1], str(pid[2]))


def torch_arrays(data: bytes) -> list[Found]:
    """Type, shape and bytes of each tensor; a ``ValueError`` says what is wrong with the file."""
    if not data.startswith(b"PK"):
        raise ValueError(_without_zip(data))
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return list(_arrays(archive))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
        trouble = "wrong checksum" if "CRC" in str(error) else "cut short"
        raise ValueError(trouble) from None


def _without_zip(data: bytes) -> str:
    if data[:1] == b"\x80":
        return "saved in torch's old format or by pickle, which only unpickling reads"
    return "not a torch file"


def _arrays(archive: zipfile.ZipFile) -> Iterator[Found]:
    names = {name.partition("/")[2]: name for name in archive.namelist()}
    if sum(info.file_size for info in archive.infolist()) > LARGEST_UNPACKED_BYTES:
        raise ValueError("would unpack to more than two gigabytes")
    if archive.getinfo(names["data.pkl"]).file_size > LARGEST_PICKLE_BYTES:
        raise ValueError("its list of tensors is larger than 16 MB")
    for tensor in _tensors(_unpickled(archive.read(names["data.pkl"])), set()):
        kept = archive.read(names[f"data/{tensor.storage.key}"])
        begin, numbers = tensor.offset * tensor.storage.kind.width, 1
        for size in tensor.shape:
            numbers *= size
        part = kept[begin : begin + numbers * tensor.storage.kind.width]
        yield tensor.storage.kind.name, tensor.shape, part


def _unpickled(data: bytes) -> Any:
    try:
        return _Unpickler(BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        raise ValueError(f"{error}, which torch.load refuses (weights_only)") from None
    except Exception:  # noqa: BLE001 a pickle that is no pickle ends in any error
        raise ValueError("its list of tensors cannot be read") from None


def _tensors(value: Any, seen: set[int]) -> Iterator[_Tensor]:
    """The tensors in nested containers, each container once."""
    if isinstance(value, _Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
        seen.add(id(value))
        inside = value.values() if isinstance(value, dict) else value
        for each in inside:
            yield from _tensors(each, seen)
