"""TensorBoard events: records with checksums around protocol buffers, read without TensorFlow."""

import os
import re
from collections.abc import Iterator
from functools import cache
from struct import unpack, unpack_from
from typing import BinaryIO

from pitstop.logs.build import Point
from pitstop.logs.lines import is_chosen
from pitstop.logs.torn import TornError
from pitstop.logs.wire import fields, text

LARGEST_CHECKED_BYTES = 1024  # scalars are smaller; Python takes a second for the sum of 5 MB
LARGEST_READ_BYTES = 1_000_000  # of one record; pictures and histograms are larger, and skipped
MOST_BYTES = 50_000_000  # of records: half a minute; longer logs are read in part
NOT_FINITE = re.compile(rb"\0\0[\x80\xc0][\x7f\xff]")  # NaN and infinities as float32
POLYNOMIAL = 0x82F63B78  # Castagnoli's, reversed
MASK = 0xA282EAD8
FLOAT, DOUBLE, INT32, INT64 = 1, 2, 3, 9  # types of a tensor


def read_events(stream: BinaryIO) -> Iterator[Point]:
    """The scalars of an event file; a damaged record ends or interrupts the reading."""
    broken = index = 0
    size = os.fstat(stream.fileno()).st_size
    every = max(1, size // MOST_BYTES)
    while head := stream.read(12):
        if len(head) < 12:
            raise TornError("the last record is not complete")
        length, check = unpack("<QI", head)
        if check != _masked(head[:8]):
            raise TornError(f"broken at byte {stream.tell() - 12:,}; what follows cannot be read")
        if length > LARGEST_READ_BYTES:
            stream.seek(length + 4, 1)
            continue
        data = stream.read(length + 4)
        if len(data) < length + 4:
            raise TornError("the last record is not complete")
        index += 1
        if not is_chosen(index, every) and not NOT_FINITE.search(data):
            continue
        if length <= LARGEST_CHECKED_BYTES and unpack_from("<I", data, length)[0] != _masked(
            data[:length]
        ):
            broken += 1
            continue
        yield from _points(data[:length])
    if broken:
        raise TornError(f"{broken} records with a wrong checksum were left out")
    if every > 1:
        told = f"one record in {every} was read, and every one with a NaN or an infinity"
        raise TornError(f"{size / 1e9:.1f} GB: {told}")


def _points(event: bytes) -> Iterator[Point]:
    time, step, summary = 0.0, 0, b""
    for number, value in fields(event):
        match number, value:
            case 1, bytes():
                time = unpack("<d", value)[0]
            case 2, int():
                step = value - 2**64 if value >= 2**63 else value
            case 5, bytes():
                summary = value
    for number, value in fields(summary):
        if number == 1 and isinstance(value, bytes):
            yield from _scalar(value, step, time)


def _scalar(value: bytes, step: int, time: float) -> Iterator[Point]:
    tag, number = "", None
    for key, part in fields(value):
        match key, part:
            case 1, bytes():
                tag = text(part)
            case 2, bytes() if len(part) == 4:
                number = float(unpack("<f", part)[0])
            case 8, bytes():
                number = _tensor(part)
    if tag and number is not None:
        yield Point(tag, step, number, time)


def _tensor(tensor: bytes) -> float | None:
    """The number in a tensor of one number; None where it is a text or holds more of them."""
    kind, found = 0, None
    for key, part in fields(tensor):
        match key, part:
            case 1, int():
                kind = part
            case 2, bytes() if part and not _is_one(part):
                return None
            case 4 | 5 | 6, bytes():
                found = _number(part, kind)
            case 7 | 10, int():
                found = float(part)
    return found


def _is_one(shape: bytes) -> bool:
    sizes = [value for number, size in fields(shape) if number == 2 and isinstance(size, bytes)
             for inner, value in fields(size) if inner == 1]  # fmt: skip
    return all(size == 1 for size in sizes)


def _number(part: bytes, kind: int) -> float | None:
    codes = {(FLOAT, 4): "<f", (DOUBLE, 8): "<d", (INT32, 4): "<i", (INT64, 8): "<q"}
    code = codes.get((kind, len(part)))
    return float(unpack(code, part)[0]) if code else None


def _masked(data: bytes) -> int:
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + MASK) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    values = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)  # noqa: PLW2901
        values.append(value)
    return tuple(values)
