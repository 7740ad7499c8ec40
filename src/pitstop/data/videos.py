"""Videos: whether the file is whole, and what a frame takes to decode where av is installed."""

import importlib
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from pitstop.data.tensors import UnreadableError

BOXES = {".mp4", ".mov", ".m4v"}  # files made of boxes, each with its length in front
MOST_BOXES = 100_000  # of the outermost; a real file has a handful or, streamed, thousands
FRAMES_TIMED = 16  # decoded at most: enough to know the pace


@dataclass(frozen=True, slots=True)
class Video:
    """One video file: its size, and the mean time of its first frames on one core."""

    width: int = 0
    height: int = 0
    frames: int = 0  # as its header says; 0: it does not
    decode_ms: float | None = None


@cache
def _av() -> Any:
    try:
        return importlib.import_module("av")
    except ImportError:
        return None


def look_at_video(path: Path) -> Video:
    """The file's boxes, then its first frames."""
    if path.suffix.lower() in BOXES:
        with path.open("rb") as stream:
            _boxes(stream, os.fstat(stream.fileno()).st_size)
    return _frames(path) if _av() else Video()


def _boxes(stream: BinaryIO, size: int) -> None:
    """Follow the lengths to the end; what is cut short ends before or has no index."""
    seen, position = set(), 0
    for _ in range(MOST_BOXES):
        if position >= size:
            break
        stream.seek(position)
        head = stream.read(16)
        length, kind = int.from_bytes(head[:4]), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16])
        seen.add(kind)
        if position == 0 and kind not in {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"}:
            raise UnreadableError("not a video")
        if length == 0:
            break  # the last box goes to the end of the file
        if length < 8 or position + length > size:
            raise UnreadableError("cut short")
        position += length
    if b"moov" not in seen:
        raise UnreadableError("cut short")


def _frames(path: Path) -> Video:
    av = _av()
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.thread_type = "NONE"  # what one core takes
            started, number = time.thread_time(), 0
            for _ in container.decode(stream):
                number += 1
                if number == FRAMES_TIMED:
                    break
            took_ms = 1000 * (time.thread_time() - started)
            if not number:
                raise UnreadableError("holds no frame")
            return Video(stream.width, stream.height, stream.frames, took_ms / number)
    except IndexError:
        raise UnreadableError("holds no video stream") from None
    except (OSError, ValueError) as error:
        text = "not a video" if "Invalid data" in str(error) else "broken inside"
        raise UnreadableError(text) from None
