"""W&B offline runs: the .wandb file, blocks with checksums around protocol buffers; no wandb."""

import json
import zlib
from collections.abc import Iterator
from struct import unpack
from typing import BinaryIO

from pitstop.logs.build import Point
from pitstop.logs.lines import flattened, number_of
from pitstop.logs.torn import TornError
from pitstop.logs.wire import fields, text

MAGIC = b":W&B"
HEADER_BYTES = 7  # of the file, and of each record
BLOCK_BYTES = 32_768  # a record never crosses the end of a block: it is split
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
HISTORY = 2  # the field of a record that holds a step's numbers
ITEM, STEP = 1, 2  # fields of it


def read_wandb(stream: BinaryIO) -> Iterator[Point]:
    """The history of a run."""
    for record in _records(stream):
        for number, value in fields(record):
            if number == HISTORY and isinstance(value, bytes):
                yield from _points(value)


def _points(history: bytes) -> Iterator[Point]:
    step, values = 0.0, dict[str, float]()
    for number, value in fields(history):
        if number == STEP and isinstance(value, bytes):
            step = next((float(part) for _, part in fields(value) if isinstance(part, int)), 0.0)
        elif number == ITEM and isinstance(value, bytes):
            values.update(_item(value))
    time = values.pop("_timestamp", 0.0)
    step = values.pop("_step", step)
    for tag, number_logged in values.items():
        if not tag.startswith("_"):
            yield Point(tag, step, number_logged, time)


def _item(item: bytes) -> Iterator[tuple[str, float]]:
    parts = [(number, value) for number, value in fields(item) if isinstance(value, bytes)]
    name = "/".join(text(value) for number, value in parts if number in {1, 2})
    for number, value in parts:
        if number == 16:
            try:
                yield from flattened(json.loads(value), name)
            except ValueError:
                if (found := number_of(text(value))) is not None:
                    yield name, found


def _records(stream: BinaryIO) -> Iterator[bytes]:
    if stream.read(HEADER_BYTES)[:4] != MAGIC:
        raise TornError("this is no W&B file")
    whole = b""
    while True:
        left = BLOCK_BYTES - stream.tell() % BLOCK_BYTES
        if left < HEADER_BYTES:
            stream.seek(left, 1)
        head = stream.read(HEADER_BYTES)
        if not head or head == bytes(HEADER_BYTES):
            break
        if len(head) < HEADER_BYTES:
            raise TornError("the last record is not complete")
        check, length, kind = unpack("<IHB", head)
        data = stream.read(length)
        if len(data) < length:
            raise TornError("the last record is not complete")
        if zlib.crc32(bytes([kind]) + data) != check:
            raise TornError(f"broken at byte {stream.tell() - length:,}; the rest is left out")
        whole = data if kind in {FULL, FIRST} else whole + data
        if kind in {FULL, LAST}:
            yield whole
