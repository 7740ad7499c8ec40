"""Settings: scalar values of YAML, JSON and TOML files, each with its own place in the text."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

import yaml

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
INTEGER = re.compile(r"[-+]?\d{1,18}")  # what has more digits is no setting of a training
YAML_READER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # some builds have no libyaml
BLOCK_STYLES = ("|", ">")
DEEPEST = 100  # containers around a setting: libyaml's time grows with the square of the depth
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

    The readers are conservative: what they do not understand they leave out.
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


@dataclass
class _Open:
    """A YAML mapping or list of which the end has not been read."""

    is_mapping: bool
    key: str | None = None  # of a mapping: read, and its value comes next


def _read_yaml(text: str, path: str) -> Iterator[Setting]:
    """By libyaml's events, one by one: a mistake further down costs nothing above it."""
    around = [_Open(False)]
    with suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=YAML_READER):
            if isinstance(event, yaml.CollectionStartEvent):
                around.append(_Open(isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, yaml.CollectionEndEvent):
                around.pop()
                _take(around[-1], "")
            elif isinstance(event, yaml.NodeEvent):
                keys = tuple(each.key for each in around if each.key)
                if around[-1].key and (setting := _yaml_setting(event, keys, text, path)):
                    yield setting
                _take(around[-1], event.value if isinstance(event, yaml.ScalarEvent) else "")
            if len(around) > DEEPEST:
                return


def _take(inside: _Open, node: str) -> None:
    """A whole node of a mapping has been read: it was a key, or the value of one."""
    inside.key = node if inside.is_mapping and inside.key is None else None


def _yaml_setting(
    event: yaml.NodeEvent, keys: tuple[str, ...], text: str, path: str
) -> Setting | None:
    """A scalar that stands on one line, without a tag or an anchor."""
    start, end = event.start_mark, event.end_mark
    if not isinstance(event, yaml.ScalarEvent) or event.tag or event.anchor:
        return None
    if start is None or end is None or event.style in BLOCK_STYLES or start.line != end.line:
        return None
    written = text[start.index : end.index]
    if not written:
        return None
    return Setting(keys, scalar(written), path, start.line + 1, start.index, end.index)


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
    r"""(?P<string>"(?:[^"\\\n]|\\.)*+"?)|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z)|\#[^\n]*)
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
