"""Store: every shared type as JSON, with a schema number, and safe to read from strangers.

A file is the value's own fields plus ``schema`` and ``kind``. Reading checks every type, so
whatever comes out can be trusted by the code that uses it; whatever cannot be read gives one
``PitstopError`` that names the file.
"""

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable_json, printable_value
from pitstop.core.private import ALONE
from pitstop.core.reading import read_regular

SCHEMA = 1  # raise it when a field is renamed, removed or changes its meaning
LARGEST_BYTES = 64_000_000  # a recording stays under 20 MB; what is larger is not ours
LARGEST_NUMBER = 2**63  # counts of anything fit; beyond it, arithmetic on floats would overflow

Value = TypeVar("Value")


def dumps(value: object) -> str:
    """A value as indented JSON, ending with a newline."""
    fields = {"schema": SCHEMA, "kind": type(value).__name__, **msgspec.to_builtins(value)}
    try:
        encoded = msgspec.json.encode(fields)
    except UnicodeEncodeError:  # a file's name that is no text
        encoded = msgspec.json.encode(printable_value(fields))
    return printable_json(msgspec.json.format(encoded, indent=2).decode()) + "\n"


def loads(text: str | bytes, kind: type[Value], name: str = "input") -> Value:
    """The value in ``text``; ``name`` is what an error calls it."""
    try:
        fields = msgspec.json.decode(text)
        _check_envelope(fields, kind.__name__)
        _check_numbers(fields)
        return msgspec.convert(fields, kind)
    except _UnreadableError as error:
        raise PitstopError(f"{name}: {error}") from None
    except (msgspec.ValidationError, ValueError) as error:  # DecodeError is a ValueError
        raise PitstopError(f"{name}: not a valid {kind.__name__} recording: {error}") from None
    except RecursionError:
        raise PitstopError(f"{name}: nested too deeply to be a Pitstop recording") from None


def check(value: object) -> None:
    """Raise where a value that was put together from a file is not what its types say."""
    fields = msgspec.to_builtins(value)
    try:
        _check_numbers(fields)
        msgspec.convert(fields, type(value))
    except (_UnreadableError, msgspec.ValidationError) as error:
        raise PitstopError(f"not a valid {type(value).__name__}: {error}") from None


def save(path: Path, value: object) -> None:
    """Write a value so that a reader sees all of it or the file that was there before."""
    write_text(path, dumps(value), private=True)


def load(path: Path, kind: type[Value]) -> Value:
    """Read a value that ``save`` wrote."""
    try:
        text = read_regular(path, LARGEST_BYTES)
    except OSError as error:
        raise PitstopError(f"{path}: {error.strerror or error}; give an existing file") from None
    return loads(text, kind, str(path))


def write_text(path: Path, text: str, private: bool = False) -> None:
    """Write a text as ``write_bytes`` does."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), private)


def write_bytes(path: Path, data: bytes, private: bool = False) -> None:
    """Write a file by renaming a finished one into place; parents are created.

    A link that stands there is replaced, not followed. What is private only its owner can read.
    """
    try:
        path.parent.mkdir(ALONE if private else 0o777, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            if not private:
                Path(partial).chmod(0o666 & ~_masked())
            Path(partial).replace(path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or error
        raise PitstopError(f"cannot write {path}: {reason}; choose another place") from None


def _masked() -> int:
    """What the user lets others not do with new files; asking for it means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class _UnreadableError(Exception):
    """What is wrong with a file, without its name."""


def _check_envelope(fields: Any, kind: str) -> None:
    if not isinstance(fields, dict) or "schema" not in fields:
        raise _UnreadableError(f"no schema number, so not a Pitstop {kind} recording")
    schema = fields["schema"]
    if type(schema) is not int or schema < 1:  # True is an int too
        raise _UnreadableError(f"schema {schema!r} is not a positive number")
    if schema > SCHEMA:
        raise _UnreadableError(
            f"written by a newer Pitstop (schema {schema}, this one reads up to {SCHEMA}): "
            "upgrade with pip install --upgrade pitstop"
        )
    if fields.get("kind") != kind:
        raise _UnreadableError(f"holds a {fields.get('kind')!r}, expected a {kind!r}")


def _check_numbers(value: Any) -> None:
    """Refuse numbers that no counter reaches: they are damaged, and would overflow later."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_numbers(each)
    elif isinstance(value, int | float) and not abs(value) <= LARGEST_NUMBER:  # NaN is neither
        raise _UnreadableError("holds a number too large to be measured")
