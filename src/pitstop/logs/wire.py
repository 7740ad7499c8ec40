"""Wire: the fields of a protocol buffer, without its description."""

from collections.abc import Iterator

from pitstop.logs.torn import TornError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIDTHS = {FIXED64: 8, FIXED32: 4}


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and content of each field: an integer, or bytes of a fixed or a given length."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if kind == BYTES:
            length, position = _varint(data, position)
        elif kind in WIDTHS:
            length = WIDTHS[kind]
        else:
            raise TornError("a record that is no protocol buffer")
        if position + length > len(data):
            raise TornError("a record that ends too early")
        yield number, data[position : position + length]
        position += length


def text(data: bytes) -> str:
    """A name, whatever its bytes."""
    return data.decode("utf-8", "replace")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while position < len(data) and shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
    raise TornError("a record that ends too early")
