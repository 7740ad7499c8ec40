"""Pins: the newest torch that a project says it runs with."""

import re
from pathlib import PurePosixPath

FILES = re.compile(
    r"(?:requirements[\w.-]*\.txt|environment[\w.-]*\.ya?ml|setup\.(?:py|cfg)|pyproject\.toml"
    r"|readme[\w.-]*\.(?:md|rst|txt)|(?:install|get_?started)[\w.-]*\.(?:md|rst|txt)|poetry\.lock|dockerfile)",
    re.IGNORECASE,
)
# torch==1.7.1, "torch ~= 2.0", torch>=1.8,<2.1, pytorch=1.10 (conda), pytorch/pytorch:1.13 (docker)
PIN = re.compile(
    r"\b(?:py)?torch[\"']?\s*(?:>=?\s*[\d.]+\s*,\s*)?"
    r"(?P<how>==?|~=|<=?|:)\s*[\"']?(?P<major>\d+)\.(?P<minor>\d+)",
    re.IGNORECASE,
)
OPEN = re.compile(r"\b(?:py)?torch\s*>=?\s*\d[\d.]*+(?!\s*,\s*<)", re.IGNORECASE)

Version = tuple[int, int]


def is_pin_file(path: str) -> bool:
    """Whether a file beside the source may say which torch is meant."""
    return bool(FILES.fullmatch(PurePosixPath(path).name))


def newest_torch(text: str) -> Version | None:
    """The newest torch that a text allows; ``None`` where it names no limit."""
    if OPEN.search(text):
        return None
    found = [_limit(each) for each in PIN.finditer(text)]
    return max(found, default=None)


def _limit(match: re.Match[str]) -> Version:
    major, minor = int(match["major"]), int(match["minor"])
    if match["how"] != "<":
        return major, minor
    return (major, minor - 1) if minor else (major - 1, 99)
