"""Memory: what the GPU's readings say of steps that nobody looked into."""

from collections.abc import Iterator

from pitstop.core.evidence import Evidence, Memory


def undisturbed(evidence: Evidence) -> Iterator[Memory]:
    """The readings of the GPU that are the script's own, in the order of time.

    A peak is the highest so far, and an inspected step takes more than it would. So after one a
    reading counts only where it is above all that was read by then: then a later step did it.
    """
    begins = [0.0, *(step.ended_s for step in evidence.steps)]
    spans = [
        (begin, step.ended_s)
        for begin, step in zip(begins, evidence.steps, strict=False)
        if step.inspected
    ]
    readings = [each for each in evidence.memory if each.gpu_peak_bytes]
    highest = met = 0
    for each in sorted(readings, key=lambda reading: reading.at_s):
        begun = [end for begin, end in spans if begin < each.at_s]
        peak = each.gpu_peak_bytes or 0
        if len(begun) > met or any(each.at_s <= end for end in begun):
            met, highest = len(begun), max(highest, peak)
        elif peak > highest or not begun:
            yield each


def peak_bytes(evidence: Evidence) -> int:
    """The most that undisturbed steps took on the GPU; zero where nobody knows."""
    return max((each.gpu_peak_bytes or 0 for each in undisturbed(evidence)), default=0)
