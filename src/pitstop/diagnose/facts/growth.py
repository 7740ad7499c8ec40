"""Growth: whether memory rises from step to step, and by how much."""

from statistics import median

from pitstop.core.evidence import Evidence
from pitstop.core.memory import undisturbed

ENOUGH_SAMPLES = 6  # two in each third of the run; fewer say nothing about a trend
STILL_GROWING = 0.25  # of the whole growth in the last part; a cache that is full has none


def growth_bytes(evidence: Evidence) -> float | None:
    """Bytes that each step adds, on the GPU if there is one; nothing where too little is known.

    Zero where memory has come to rest: what fills up and stops is a cache, not a leak.
    """
    steady = evidence.steady
    if not steady:
        return None
    begin, end = steady[0].ended_s, steady[-1].ended_s
    on_gpu = any(each.gpu_peak_bytes for each in evidence.memory)
    if on_gpu:
        known = [(each.at_s, each.gpu_peak_bytes or 0) for each in undisturbed(evidence)]
    else:
        known = [(each.at_s, each.host_bytes) for each in evidence.memory if each.host_bytes]
    samples = [(at, size) for at, size in known if begin <= at <= end]
    if len(samples) < ENOUGH_SAMPLES:
        return None
    third = len(samples) // 3
    parts = (samples[:third], samples[third:-third], samples[-third:])
    first, middle, last = (median(size for _, size in part) for part in parts)
    if last <= first or last - middle < STILL_GROWING * (last - first):
        return 0.0
    since, until = (median(at for at, _ in part) for part in (parts[0], parts[2]))
    steps = sum(since < step.ended_s <= until for step in evidence.steps)
    return (last - first) / max(1, steps)
