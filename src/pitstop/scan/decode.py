"""Decoding: bytes of a file as text and back, with encoding, byte-order mark and line ends kept."""

import codecs
import io
import tokenize
from dataclasses import dataclass

from pitstop.core.errors import PitstopError


class UnreadableError(PitstopError):
    """Why one file cannot be scanned; the scan goes on without it."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the bytes of a file spell its text."""

    name: str = "utf-8"
    mark: bool = False  # starts with a UTF-8 byte-order mark


def decode(data: bytes) -> tuple[str, Encoding]:
    """The text as Python reads it (PEP 263), line ends untouched, and how to spell it again."""
    if b"\0" in data:
        raise UnreadableError("holds NUL bytes, so it is not Python text")
    mark = data.startswith(codecs.BOM_UTF8)
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        name = "utf-8" if name == "utf-8-sig" else name
        body = data[len(codecs.BOM_UTF8) :] if mark else data
        return body.decode(name), Encoding(name, mark)
    except SyntaxError as error:
        raise UnreadableError(f"cannot be decoded: {error.msg or error}") from None
    except (UnicodeError, LookupError) as error:  # `# coding: undefined` is neither
        raise UnreadableError(f"cannot be decoded: {error}") from None


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes of a changed text, spelled as the file was."""
    body = text.encode(encoding.name)
    return codecs.BOM_UTF8 + body if encoding.mark else body
