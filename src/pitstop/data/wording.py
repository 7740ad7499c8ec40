"""Wording: counts and paths as findings tell them."""

from pitstop.data.dataset import Examples


def named(examples: Examples) -> str:
    """``12 files: a, b, c ...``, or the paths alone where there are no more than these."""
    paths = ", ".join(examples.first)
    return paths if examples.count <= len(examples.first) else f"{examples.count:,}: {paths} ..."


def number(count: int, noun: str, plural: str = "") -> str:
    """``1 clip``, ``12,000 clips``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"
