"""Crops and smaller versions of JPEG and PNG files, without decoding what lies below the crop.

Why the plain way is slow: ``Image.open(path).convert("RGB").crop(box)`` decodes the whole picture
and throws most of it away. Both formats are read from the top, so what lies above a crop must be
unpacked. What lies below it need not be, yet no decoder offers to stop there.

What is done instead: in a copy of the bytes the header says that the picture ends a little below
the crop, and the decoder stops there by itself. ``simplejpeg`` decodes where it is installed. Where
a JPEG is wanted in half its size or less, its blocks become smaller ones at once (``draft``).

The floor: all bytes down to the end of the crop are unpacked. A crop at the bottom gains nothing.

Numbers: without ``size`` a crop is bit for bit that of the twin, since Pillow's wheels and
simplejpeg hold the same library. With ``size`` it is as well, unless a JPEG is at least twice as
large both ways: then its pixels differ as two good filters differ. ``exact=True`` forbids that.

What it does not do: progressive JPEG and interlaced PNG are read as a whole, as is any other
format. The orientation in EXIF is not applied, and damage below the crop may go unseen.
"""

import importlib
import struct
import zlib
from collections.abc import Callable
from functools import cache
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pitstop.core.errors import PitstopError

if TYPE_CHECKING:
    from PIL.Image import Image

Source = Path | str | bytes
Box = tuple[int, int, int, int]  # left, top, right, bottom, as in Pillow
Crop = Box | Callable[[int, int], Box]  # a function is given width and height of the picture
Pixels = np.ndarray[Any, np.dtype[np.uint8]]

BELOW = 32  # rows kept below a crop: the tallest row of blocks, whose colours are blurred into it
SEQUENTIAL = (0xC0, 0xC1)  # frames of a JPEG that are written once, from top to bottom
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # all that tell a size
START_OF_SCAN = 0xDA
END_OF_JPEG = b"\xff\xd9"
INTERLACED = 28  # the byte where a PNG says so


def fast_decode(
    source: Source,
    crop: Crop | None = None,
    size: tuple[int, int] | None = None,
    *,
    exact: bool = False,
) -> Pixels:
    """A picture or its crop as RGB (height, width, 3), resized to ``size`` (width, height)."""
    data = _bytes(source)
    picture = _opened(data, source)
    box = _box(crop, picture.size, source)
    if size is not None and min(size) < 1:
        raise PitstopError(f"fast_decode: no picture has the size {size[0]}x{size[1]}")
    try:
        if box[3] + BELOW < picture.height:
            data = _ending_at(data, box[3] + BELOW)
            picture = _opened(data, source)
        if size is None:
            return _cut(picture, data, box)
        by = 1 if exact else _shrunk(picture, box, size)
        outer = box[0] // by, box[1] // by, ceil(box[2] / by), ceil(box[3] / by)
        pixels = _cut(picture, data if by == 1 else b"", outer)
        return _resized(pixels, size, _within(outer, box, by))
    except (OSError, SyntaxError, ValueError) as error:
        raise PitstopError(f"fast_decode: {_name(source)}: {error}") from None


def fast_decode_twin(
    source: Source, crop: Crop | None = None, size: tuple[int, int] | None = None
) -> Pixels:
    """The same from the whole picture."""
    picture = _opened(_bytes(source), source).convert("RGB")
    box = _box(crop, picture.size, source)
    pixels = np.array(picture.crop(box))
    return pixels if size is None else _resized(pixels, size, _within(box, box, 1))


def _bytes(source: Source) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise PitstopError(f"fast_decode: {source}: {error.strerror}") from None


@cache
def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise PitstopError("fast_decode needs Pillow: pip install pillow") from None


def _opened(data: bytes, source: Source) -> "Image":
    try:
        picture: Image = _pillow().open(BytesIO(data))
    except OSError:
        raise PitstopError(f"fast_decode: {_name(source)}: not a picture") from None
    return picture


def _name(source: Source) -> str:
    return f"{len(source)} bytes in memory" if isinstance(source, bytes) else str(source)


def _box(crop: Crop | None, size: tuple[int, int], source: Source) -> Box:
    """The crop in pixels, inside the picture."""
    width, height = size
    if crop is None:
        return 0, 0, width, height
    left, top, right, bottom = map(int, crop(width, height) if callable(crop) else crop)
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        wanted = f"no crop {left, top, right, bottom} in a picture of {width}x{height}"
        raise PitstopError(f"fast_decode: {_name(source)}: {wanted}")
    return left, top, right, bottom


def _within(outer: Box, box: Box, by: int) -> tuple[float, ...]:
    """Where in ``outer``, of a picture that was shrunk, the crop lies."""
    return tuple(each / by - outer[at % 2] for at, each in enumerate(box))


def _cut(picture: "Image", data: bytes, box: Box) -> Pixels:
    """The crop, by simplejpeg where it is installed and ``data`` is a whole JPEG in colour."""
    left, top, right, bottom = box
    turbo = _turbo() if picture.format == "JPEG" and picture.mode == "RGB" else None
    if turbo is None or not data.endswith(END_OF_JPEG):
        return np.array(picture.crop(box).convert("RGB"))
    pixels: Pixels = turbo(data, strict=False)  # strict minds that the file goes on
    return pixels[top:bottom, left:right].copy()


@cache
def _turbo() -> Callable[..., Pixels] | None:
    """The decoder of simplejpeg, where it is installed."""
    try:
        decoder: Callable[..., Pixels] = importlib.import_module("simplejpeg").decode_jpeg
    except ImportError:
        return None
    return decoder


def _shrunk(picture: "Image", box: Box, size: tuple[int, int]) -> int:
    """Let the decoder of a JPEG shrink by 2, 4 or 8 where the crop stays large enough."""
    left, top, right, bottom = box
    most = min((right - left) // size[0], (bottom - top) // size[1])
    by = next((each for each in (8, 4, 2) if each <= most), 1)
    if by == 1 or picture.format != "JPEG":
        return 1
    drafted = picture.draft(None, (picture.width // by, picture.height // by))
    return by if drafted else 1


def _resized(pixels: Pixels, size: tuple[int, int], part: tuple[float, ...]) -> Pixels:
    """A part of them in the wanted size, as torchvision makes it of a PIL picture."""
    image = _pillow()
    return np.array(image.fromarray(pixels).resize(size, image.Resampling.BILINEAR, part))


def _ending_at(data: bytes, rows: int) -> bytes:
    """The same file, with a header that tells of so many rows; unchanged where that cannot be."""
    try:
        if data.startswith(b"\xff\xd8"):
            return _jpeg_ending_at(data, rows)
        if data.startswith(b"\x89PNG") and data[12:16] == b"IHDR":
            return _png_ending_at(data, rows)
    except (struct.error, IndexError):
        pass  # a damaged header: the decoder will say so
    return data


def _png_ending_at(data: bytes, rows: int) -> bytes:
    head = data[12:20] + struct.pack(">I", rows) + data[24:29]
    if data[INTERLACED] or b"acTL" in data[: data.find(b"IDAT")]:  # or an animation
        return data
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


def _jpeg_ending_at(data: bytes, rows: int) -> bytes:
    at = frame = 2
    while data[at + 1] != START_OF_SCAN:
        if data[at] != 0xFF:
            return data
        if data[at + 1] in FRAMES:
            frame = at
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    one_scan = data[at + 4] == data[frame + 9]  # of all colours
    if data[frame + 1] not in SEQUENTIAL or not one_scan:
        return data
    return data[: frame + 5] + struct.pack(">H", rows) + data[frame + 7 :]
