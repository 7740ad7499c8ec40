"""The cache: facts and findings of files whose content has not changed since the last run.

One file per set of scanned paths. It starts with the hash of its own content, so a torn or
damaged file is noticed and ignored; it is replaced in one step, so parallel runs cannot mix.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import pitstop
from pitstop.core.finding import Finding
from pitstop.core.folders import cache_folder
from pitstop.scan.facts import FileFacts
from pitstop.scan.plugins import plugin_state

HASH_BYTES = 20


@dataclass
class Facts:
    """The facts of one file as bytes, read only when they are needed, or why there are none."""

    data: bytes = b""
    problem: str = ""

    def read(self) -> FileFacts:
        """The facts themselves."""
        return msgspec.msgpack.decode(self.data, type=FileFacts)


@dataclass
class Result:
    """What the rules said about one file."""

    findings: list[Finding] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)


@dataclass
class Entries:
    """All that is remembered, by key."""

    facts: dict[bytes, Facts] = field(default_factory=dict)
    results: dict[bytes, Result] = field(default_factory=dict)


def digest(*parts: bytes | str) -> bytes:
    """A key for whatever the parts describe; lengths count in, so parts cannot run together."""
    hashed = hashlib.blake2b(digest_size=HASH_BYTES)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.digest()


def engine_digest() -> bytes:
    """A key for this version of the scanner: any changed file of it empties the cache."""
    root = Path(pitstop.__file__).parent
    parts = [pitstop.__version__, *plugin_state()]
    for file in sorted([*root.glob("scan/**/*.py"), *root.glob("core/*.py")]):
        state = file.stat()
        parts.append(f"{file.relative_to(root)} {state.st_size} {state.st_mtime_ns}")
    return digest(*parts)


def cache_file(paths: Iterable[Path]) -> Path:
    """Where the cache of a scan of these paths is kept."""
    name = digest(*(str(path.absolute()) for path in paths)).hex()
    return cache_folder() / "scan" / f"{name}.bin"


def load(file: Path) -> Entries:
    """What the last run left; nothing when it is missing, damaged or from another version."""
    try:
        data = file.read_bytes()
        body = data[HASH_BYTES:]
        if digest(body) != data[:HASH_BYTES]:
            return Entries()
        return msgspec.msgpack.decode(body, type=Entries)
    except (OSError, msgspec.MsgspecError, ValueError):
        return Entries()


def _can_be_read(result: Result) -> bool:
    """Whether a result survives the way to the disk: one that does not would void all others."""
    try:
        msgspec.convert(msgspec.to_builtins(result), Result)
    except msgspec.ValidationError:  # a rule has put in a word that findings do not know
        return False
    return True


def save(file: Path, entries: Entries) -> None:
    """Remember for the next run; a folder that cannot be written costs only the speed."""
    results = {key: each for key, each in entries.results.items() if _can_be_read(each)}
    body = msgspec.msgpack.encode(Entries(entries.facts, results))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(digest(body) + body)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return
