"""Ranks: what each process of a distributed run does itself, and what it waits for."""

from collections import Counter
from statistics import median

from pitstop.core.evidence import Evidence, Line
from pitstop.diagnose.facts.loading import feeding_loader

CLEARLY_MORE = 0.05  # of a rank's samples; less is chance


def own_ms(evidence: Evidence, at: float = 0.5) -> float:
    """What a rank does itself in a step: all but the time in which the others hold it up.

    ``at`` chooses the step: half of them take no longer, or another share.

    On a CPU that time is measured. On a GPU the gradients are added up while the backward pass
    runs, and a fast rank waits there or later: only what comes before is its own for certain.
    """
    if evidence.settings and evidence.settings.device == "cuda":
        own = [
            step.data_wait_ms + step.forward_ms + step.other_ms - step.collective_ms
            for step in evidence.steady
        ]
    else:
        own = [step.total_ms - step.collective_ms for step in evidence.steady]
    return sorted(own)[int(at * (len(own) - 1))]


def waiting_ms(evidence: Evidence) -> float:
    """The rest of the step, in which a rank may be held up by the others."""
    return evidence.median_ms() - own_ms(evidence)


def input_ms(evidence: Evidence) -> float:
    """The wait for a batch."""
    return evidence.median_ms("data_wait_ms")


def line_behind(slow: Evidence, others: list[Evidence], by_input: bool) -> Line:
    """The line that the slow rank was found at more often than the others; empty: there is none."""
    loader = feeding_loader(slow)
    more = {
        line: share - median(_shares(each, by_input).get(line, 0.0) for each in others)
        for line, share in _shares(slow, by_input).items()
    }
    line = max(more, key=lambda each: more[each], default=Line())
    if more.get(line, 0.0) > CLEARLY_MORE:
        return line
    return loader.used if by_input and loader else Line()


def _shares(evidence: Evidence, waiting: bool) -> dict[Line, float]:
    """How often each line was found running, of all samples of the rank."""
    counts: Counter[Line] = Counter()
    for each in evidence.sampled:
        if each.waiting == waiting and each.where.path:
            counts[each.where] += each.samples
    total = sum(each.samples for each in evidence.sampled)
    return {line: samples / total for line, samples in counts.items()}
