"""Units: how numbers are written for people. Data keeps shares as 0 to 1 and bytes as bytes."""

import math

PREFIXES = ("", "k", "M", "G", "T", "P")


def count(number: int, noun: str) -> str:
    """``1 warning``, ``2 warnings``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(share: float) -> str:
    """``0.4`` as ``40 %``; one decimal below ten percent, where it matters."""
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"


def precise_percent(share: float) -> str:
    """The same where 0.0 % would hide something: ``0.0000031`` as ``0.00031 %``."""
    if abs(share) >= 0.0005 or not share:
        return percent(share)
    digits = 1 - math.floor(math.log10(abs(share * 100)))
    return f"{share * 100:.{digits}f} %"


def change(ratio: float) -> str:
    """A ratio as what it adds or takes away: ``1.1`` as ``+10 %``."""
    return f"{'+' if ratio > 1 else ''}{precise_percent(ratio - 1)}"


def binary_bytes(count: float) -> str:
    """Memory: ``67108864`` as ``64.0 MiB``."""
    for prefix in ("", "Ki", "Mi", "Gi"):
        if abs(count) < 1024:
            return f"{count:.0f} B" if not prefix else f"{count:.1f} {prefix}B"
        count /= 1024
    return f"{count:.1f} TiB"


def milliseconds(value: float) -> str:
    """A duration with three digits: ``0.0412`` as ``41.2 µs``, ``1234`` as ``1.23 s``."""
    for scale, unit in ((1e-3, "s"), (1.0, "ms"), (1e3, "µs")):
        if abs(value) * scale >= 1:
            return f"{_three_digits(value * scale)} {unit}"
    return f"{_three_digits(value * 1e6)} ns" if value else "0 ms"


def minutes(seconds: float) -> str:
    """What one waits for: ``75`` as ``75 s``, ``130`` as ``2.2 minutes``."""
    value = seconds / 60
    return f"{seconds:.0f} s" if seconds < 90 else f"{value:.{1 if value < 9.95 else 0}f} minutes"


def rate(value: float, unit: str) -> str:
    """A rate with a decimal prefix: ``4.3e12`` and ``B/s`` as ``4.30 TB/s``."""
    for prefix in PREFIXES[:-1]:
        if abs(value) < 999.5:
            return f"{_three_digits(value)} {prefix}{unit}"
        value /= 1000
    return f"{_three_digits(value)} {PREFIXES[-1]}{unit}"


def _three_digits(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f}"
