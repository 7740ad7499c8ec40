"""Pictures: size, mode and whether they decode, by whichever decoders are installed."""

import importlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any

from pitstop.data.tensors import UnreadableError

BLACK = 1  # of 255: what a lossy codec makes of black


@dataclass(frozen=True, slots=True)
class Picture:
    """One decoded picture, and what decoding took on one core."""

    width: int
    height: int
    mode: str
    channels: int
    black: bool
    plain: bool  # of one colour throughout
    decode_ms: float | None
    faster: tuple[tuple[str, float], ...] = ()  # other decoders and their time


@cache
def pillow() -> Any:
    """Pillow, warmed up, or None where it is not installed."""
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError:
        return None
    image.init()  # else the first picture pays for the import of every codec
    return image


@cache
def other_decoders() -> tuple[tuple[str, Callable[[bytes], Any]], ...]:
    """Decoders of JPEG that are installed beside Pillow."""
    found: list[tuple[str, Callable[[bytes], Any]]] = []
    with suppress(ImportError):
        found.append(("simplejpeg", importlib.import_module("simplejpeg").decode_jpeg))
    return tuple(found)


def decode(data: bytes, suffix: str) -> Picture | None:
    """The picture; None where nothing here can decode it. An error says what is wrong."""
    if pillow() is None:
        _look_at_the_end(data, suffix)
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large picture, of odd metadata
            return _decode(data, suffix)
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        if suffix in {".exr", ".hdr", ".jxl", ".avif"} and "identify" in str(error):
            return None  # Pillow may lack the codec
        raise UnreadableError(_reason(error)) from None
    except Exception as error:  # noqa: BLE001 a broken file ends a codec in any way
        raise UnreadableError(_reason(error)) from None


def _decode(data: bytes, suffix: str) -> Picture:
    started = time.thread_time()
    with pillow().open(BytesIO(data)) as image:
        image.load()
        took_ms = 1000 * (time.thread_time() - started)
        extremes = image.getextrema()
        bands = extremes if isinstance(extremes[0], tuple) else (extremes,)
        colours = bands[:3] if image.mode in {"RGBA", "RGBX"} else bands[:1] + bands[1:]
        black = image.mode in {"L", "RGB", "RGBA", "1"} and all(top <= BLACK for _, top in colours)
        channels = len(image.getbands())
        return Picture(
            image.width, image.height, image.mode, channels, black,
            all(low == high for low, high in bands), took_ms,
            tuple(_others(data)) if suffix in {".jpg", ".jpeg", ".jpe"} else (),
        )  # fmt: skip


def _others(data: bytes) -> Iterator[tuple[str, float]]:
    for name, decoder in other_decoders():
        started = time.thread_time()
        try:
            decoder(data)
        except (ValueError, RuntimeError):
            continue
        yield name, 1000 * (time.thread_time() - started)


def _look_at_the_end(data: bytes, suffix: str) -> None:
    """Without a decoder: whether the file begins and ends as its format does."""
    begins = {".png": b"\x89PNG", ".jpg": b"\xff\xd8", ".jpeg": b"\xff\xd8"}
    ends = {".png": b"IEND", ".jpg": b"\xff\xd9", ".jpeg": b"\xff\xd9"}
    if suffix in begins and not data.startswith(begins[suffix]):
        raise UnreadableError("not a picture")
    if suffix in ends and ends[suffix] not in data[-64:]:
        raise UnreadableError("cut short")


def _reason(error: Exception) -> str:
    text = str(error).lower()
    if "truncated" in text or "cut" in text or isinstance(error, EOFError):
        return "cut short"
    if "identify" in text:
        return "not a picture"
    if "bomb" in type(error).__name__.lower():
        return "has too many pixels to decode safely"
    return "broken inside"
