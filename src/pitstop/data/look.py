"""Look: open one file and say what it is, in a process of its own; none of its code runs."""

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from pitstop.core.reading import LFS_POINTER, read_regular
from pitstop.data.dataset import Kind
from pitstop.data.pictures import Picture, decode
from pitstop.data.tensors import Array, UnreadableError, all_zero, arrays_of, bad_number
from pitstop.data.videos import look_at_video

FEWEST_ZEROS = 256  # numbers; a label or a vector of few may be zero
LARGEST_BYTES = 256_000_000  # of a file that is read whole, by each core at once


@dataclass(frozen=True, slots=True)
class Job:
    """One file to open: which, and where it belongs."""

    path: str  # relative to the dataset
    kind: Kind
    place: int  # by position among the places


@dataclass(frozen=True, slots=True)
class Look:
    """What one file is like."""

    job: Job
    trouble: str = ""  # why it could not be read
    large: bool = False  # too large to be opened here, which is nothing against it
    bad: str = ""  # "NaN" or "Inf"
    shape: str = ""
    size: tuple[int, int] = (0, 0)
    numbers: float = 0.0
    frames: int = 0
    mode: str = ""  # of a picture, as Pillow calls it
    black: bool = False  # or a tensor of zeros
    plain: bool = False  # of one colour throughout
    digest: int = 0  # of all its bytes
    bytes: int = 0
    read_ms: float | None = None
    decode_ms: float | None = None
    faster: tuple[tuple[str, float], ...] = ()


def look_at_all(root: str, jobs: Sequence[Job]) -> list[Look]:
    """Each file in turn; what is wrong with one is a fact about it, not an error of ours."""
    return [_look(Path(root), job) for job in jobs]


def _look(root: Path, job: Job) -> Look:
    path = root / job.path
    try:
        if job.kind == "video":
            video = look_at_video(path)
            numbers = float(3 * video.width * video.height)
            shape = f"{video.width}x{video.height}" if video.width else ""
            return Look(
                job, shape=shape, size=(video.width, video.height), numbers=numbers,
                frames=video.frames, bytes=path.stat().st_size, decode_ms=video.decode_ms,
            )  # fmt: skip
        started = time.perf_counter()
        data = read_regular(path, LARGEST_BYTES)
        read_ms = 1000 * (time.perf_counter() - started)
        found = _of_bytes(job, data, path.suffix.lower())
        return _timed(found, data, read_ms)
    except UnreadableError as error:
        return Look(job, trouble=str(error))
    except OSError as error:
        large = error.errno == errno.EFBIG
        return Look(job, large=large, trouble="" if large else error.strerror or str(error))
    except MemoryError:
        return Look(job, trouble="too large for the memory of this machine")


def _timed(found: Look, data: bytes, read_ms: float) -> Look:
    digest = int.from_bytes(blake2b(data, digest_size=8).digest()[:7])
    return replace(found, digest=digest, bytes=len(data), read_ms=read_ms)


def _of_bytes(job: Job, data: bytes, suffix: str) -> Look:
    if not data:
        raise UnreadableError("empty")
    if data.startswith(LFS_POINTER):
        raise UnreadableError("a pointer of Git LFS (run git lfs pull)")
    if job.kind == "picture":
        picture = decode(data, suffix)
        return _of_picture(job, picture) if picture else Look(job)
    started = time.thread_time()
    arrays = arrays_of(data, suffix)
    took_ms = 1000 * (time.thread_time() - started)
    bad = next(filter(None, (bad_number(array) for array in arrays)), "")
    numbers = float(sum(array.numbers for array in arrays))
    zero = numbers >= FEWEST_ZEROS and all(all_zero(array) for array in arrays)
    return Look(job, bad=bad, shape=_shape(arrays), numbers=numbers, black=zero, decode_ms=took_ms)


def _of_picture(job: Job, picture: Picture) -> Look:
    return Look(
        job,
        shape=f"{picture.width}x{picture.height} {picture.mode}",
        size=(picture.width, picture.height),
        numbers=float(picture.width * picture.height * picture.channels),
        mode=picture.mode,
        black=picture.black,
        plain=picture.plain,
        decode_ms=picture.decode_ms,
        faster=picture.faster,
    )


def _shape(arrays: Sequence[Array]) -> str:
    """``float32 (5, 48, 64)``; of several arrays, the kinds of them."""
    names = sorted({f"{array.dtype} {array.shape}" for array in arrays})
    return names[0] if len(arrays) == 1 else f"{len(arrays)} arrays: {', '.join(names[:2])}"
