"""Numbers: what an option may be that ``FloatRange`` lets through, and nothing can be done with."""

import math

import click


def finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """The number itself; one that is none, or has no end, is a mistake."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number that can be used")
    return value
