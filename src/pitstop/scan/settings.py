"""Settings: scalar values of YAML, JSON and TOML files, each with its own place in the text."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from pitstop.scan.text import Lines

Scalar = str | int | float | bool | None

WORDS: dict[str, Scalar] = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
    "null": None,
    "~": None,
    "none": None,
    "": None,
}
INTEGER = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Setting:
    """One ``key: value`` of a config file. ``start`` to ``end`` is the value's own text."""

    keys: tuple[str, ...]  # the path from the top: ("data", "train", "num_workers")
    value: Scalar
    path: str
    line: int
    start: int
    end: int

    @property
    def key(self) -> str:
        """The last key: ``num_workers``."""
        return self.keys[-1]


def read_settings(text: str, path: str) -> tuple[Setting, ...]:
    """All scalar settings of a config file, by its suffix; none for any other file.

    The readers are line-oriented and conservative: what they do not understand they leave out.
    """
    reader = READERS.get(PurePosixPath(path).suffix)
    return tuple(reader(text, path)) if reader else ()


def scalar(written: str) -> Scalar:
    """The value of an unquoted or quoted scalar, as all three formats mostly agree on it."""
    if len(written) >= 2 and written[0] == written[-1] and written[0] in "\"'":
        return written[1:-1]
    if written.lower() in WORDS:
        return WORDS[written.lower()]
    if INTEGER.fullmatch(written):
        return int(written)
    return float(written) if NUMBER.fullmatch(written) else written


# A value is quoted, or goes up to a comment or the end of the line.
YAML_LINE = re.compile(
    r"""^(?P<indent>[ ]*)(?P<dashes>(?:-[ ]+)*)
    (?P<key>"[^"\n]+"|'[^'\n]+'|[\w.$/-]+)[ ]*:(?=[ \r\n]|$)[ ]*
    (?P<value>"[^"\n]*"|'[^'\n]*'|[^\s#][^\r\n]*?)?
    [ ]*(?:\#[^\n]*)?\r?$""",
    re.VERBOSE | re.MULTILINE,
)
NOT_PLAIN = "&*!|>{[%@`"  # anchors, tags, blocks and flows
BLOCK_SCALAR = re.compile(r":[ ]*[|>][-+\d]*[ ]*(?:#.*)?\r?$")


def _read_yaml(text: str, path: str) -> Iterator[Setting]:
    stack: list[tuple[int, str]] = []  # indentation and key of the mappings around
    hidden = -1  # inside a block scalar: its key's indentation
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        start, offset = offset, offset + len(line)
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or (hidden >= 0 and indent > hidden):
            continue
        hidden = indent if BLOCK_SCALAR.search(line.rstrip("\n")) else -1
        match = YAML_LINE.match(line.rstrip("\n"))
        if match is None:
            continue
        depth = indent + len(match["dashes"])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        key = match["key"].strip("\"'")
        keys = (*(each for _, each in stack), key)
        stack.append((depth, key))
        if (found := _yaml_value(match)) is not None:
            first = start + match.start("value")
            yield Setting(keys, scalar(found), path, number, first, first + len(found))


def _yaml_value(match: re.Match[str]) -> str | None:
    """The value without a trailing comment; ``None`` where a nested block follows."""
    value = match["value"]
    if not value or value[0] in NOT_PLAIN:
        return None
    if value[0] in "\"'":
        return value if value[-1] == value[0] and len(value) > 1 else None
    return re.split(r"\s+#", value, maxsplit=1)[0].rstrip()


TOML_TABLE = re.compile(r"^\s*\[{1,2}([^\[\]]+)\]{1,2}\s*(?:#.*)?$")
TOML_LINE = re.compile(
    r"""^\s*([\w.-]+|"[^"]+")\s*=\s*("[^"\n]*"|'[^'\n]*'|[\w.+-]+)\s*(?:\#.*)?$"""
)


def _read_toml(text: str, path: str) -> Iterator[Setting]:
    table: tuple[str, ...] = ()
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        start, offset = offset, offset + len(line)
        bare = line.rstrip("\r\n")
        if header := TOML_TABLE.match(bare):
            table = tuple(part.strip().strip('"') for part in header[1].split("."))
        elif match := TOML_LINE.match(bare):
            keys = (*table, *match[1].strip('"').split("."))
            first = start + match.start(2)
            yield Setting(keys, scalar(match[2]), path, number, first, first + len(match[2]))


JSON_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)
    |(?P<mark>[{}\[\]:,])|(?P<word>[\w.+-]+)""",
    re.VERBOSE | re.DOTALL,
)


def _read_json(text: str, path: str) -> Iterator[Setting]:
    """JSON with the comments that people write into option files."""
    stack: list[str] = []  # keys of the containers around; "" for a list or the top
    key = ""
    pending = ""
    ready = False  # a colon has been read: what follows is the value of ``key``
    lines = Lines(text)
    for match in JSON_TOKEN.finditer(text):
        written = match[0]
        if match.lastgroup == "comment":
            continue
        if match.lastgroup != "mark":
            if ready:
                keys = (*filter(None, stack), key)
                line = lines.position(match.start())[0]
                yield Setting(keys, scalar(written), path, line, match.start(), match.end())
            pending = written.strip('"')
            ready = False
        elif written in "{[":
            stack.append(key if ready else "")
            ready = False
        elif written in "}]" and stack:
            stack.pop()
        elif written == ":":
            key, ready = pending, True


Reader = Callable[[str, str], Iterator[Setting]]
READERS: dict[str, Reader] = {
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".toml": _read_toml,
    ".json": _read_json,
}
