"""Seen: what the operations of the first run tell, for changes that need not be tried then."""

from pitstop.core.evidence import Evidence


def no_convolution(evidence: Evidence) -> str:
    """A reason where operations were seen and no convolution among them; else empty."""
    names = {each.name for each in evidence.operations}
    return "" if not names or any("conv" in name for name in names) else "nothing is convolved"


def no_checkpoint(evidence: Evidence) -> str:
    """A reason where modules ran and none of them ran again in the backward pass; else empty."""
    if not evidence.calls or any(each.recomputed for each in evidence.calls):
        return ""
    return "nothing is checkpointed"


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


def own_precision(evidence: Evidence) -> str:
    """What the script itself rounds to: under its autocast, or on a GPU with TF32; else float32.

    A change that rounds elsewhere, as other kernels do, does so in that precision too.
    """
    settings = evidence.settings
    if settings is None or settings.autocast:
        return settings.autocast if settings else "float32"
    tf32 = settings.tf32_matmul or (settings.tf32_cudnn and not no_convolution(evidence))
    return "tfloat32" if tf32 and settings.device.startswith("cuda") else "float32"
