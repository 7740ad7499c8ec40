"""Memory: what the GPU's readings say of steps that nobody looked into."""

from collections.abc import Iterator

from pitstop.core.evidence import Evidence, Memory


def undisturbed(evidence: Evidence) -> Iterator[Memory]:
    """The readings of the GPU that are the script's own, in the order of time.

    A peak is the highest so far, and an inspected step takes more than it would. So after one a
    reading counts only where it is above all that was read by then: then a later step did it.
    """
    highest = 0
    for each in sorted(evidence.memory, key=lambda reading: reading.at_s):
        peak = each.gpu_peak_bytes or 0
        if each.inspected:
            highest = max(highest, peak)
        elif peak > highest:
            yield each


def peak_bytes(evidence: Evidence) -> int:
    """The most that undisturbed steps took on the GPU; zero where nobody knows."""
    return max((each.gpu_peak_bytes or 0 for each in undisturbed(evidence)), default=0)
