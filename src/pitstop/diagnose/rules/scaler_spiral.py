"""PIT702 scaler-spiral."""

from collections.abc import Iterator
from itertools import pairwise
from math import log2

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.recording import Recording

HALVINGS = 8  # after it has come to rest once: from 65536 the first search may take a dozen
LEAST = 1.0  # scale: below that it only makes the gradients smaller
STILL_FALLING = 0.75  # of the steps; a scale that has not come to rest by then does not find any


@rule("PIT702")
def scaler_spiral(recording: Recording) -> Iterator[Finding]:
    """The gradient scaler halves its scale again and again, and skips a step each time.

    Gradients that are not finite at any scale come from the numbers themselves: a scale near zero
    only makes the small gradients vanish as well. bfloat16 has the range of float32 and needs
    no scaler.

    Bad:
        with torch.autocast("cuda", torch.float16):
            loss = model(batch)

    Good:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch)
    """
    scales = [step.scale for step in recording.evidence.steps if step.scale]
    falls = [place for place, (before, after) in enumerate(pairwise(scales), 1) if after < before]
    if not falls or falls[-1] < STILL_FALLING * len(scales):
        return
    rests = (place for place, (before, after) in enumerate(pairwise(scales)) if after >= before)
    highest = scales[next(rests, -1)] if scales[-1] >= LEAST else max(scales)
    if log2(highest / scales[-1]) < HALVINGS:
        return
    yield Finding(
        f"The gradient scale falls from {scales[0]:g} to {scales[-1]:g} and is still falling: "
        f"{len(falls)} of {len(scales)} steps were skipped.",
        cure="find the first number that is not finite, or use bfloat16, which needs no scaler",
        severity="error",
        confidence="measured",
        metrics=(Metric("skipped steps", len(falls), "steps"),),
        saving=None,
        changes=("bf16",),
    )
