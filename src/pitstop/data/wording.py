"""Wording: counts and paths as findings tell them."""

from pitstop.data.dataset import Examples


def named(examples: Examples) -> str:
    """``a, b, c ... (12 in all)``, or the paths alone where there are no more than these."""
    paths = ", ".join(examples.first)
    return (
        paths
        if examples.count <= len(examples.first)
        else f"{paths} ... ({examples.count:,} in all)"
    )


def number(count: int, noun: str, plural: str = "") -> str:
    """``1 clip``, ``12,000 clips``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"
