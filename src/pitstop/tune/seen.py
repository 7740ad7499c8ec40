"""Seen: what the operations of the first run tell, for changes that need not be tried then."""

from pitstop.core.evidence import Evidence


def no_convolution(evidence: Evidence) -> str:
    """A reason where operations were seen and no convolution among them; else empty."""
    names = {each.name for each in evidence.operations}
    return "" if not names or any("conv" in name for name in names) else "nothing is convolved"


def no_float32(evidence: Evidence) -> str:
    """A reason where operations were seen and none of them on float32; else empty."""
    shapes = [each.shapes for each in evidence.operations]
    if not shapes or any("float32" in each for each in shapes):
        return ""
    return "nothing is computed in float32"


def no_need_of_autocast(evidence: Evidence) -> str:
    """A reason where the script computes in half precision as it is; else empty."""
    settings = evidence.settings
    if settings and settings.autocast:
        return "the script has its own autocast"
    return no_float32(evidence)
