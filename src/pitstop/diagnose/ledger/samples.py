"""Samples: how long the main thread was at each line of a step, and what it did there."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath

from pitstop.core.evidence import Evidence, Line, Operation, Sampled
from pitstop.diagnose.facts.operations import tensors

# Libraries that a script does its own work with, as samples name them: last folder, file, function.
LIBRARIES = re.compile(r"^(?:PIL|numpy|lib|cv2|imageio|v\d|skimage|scipy|pandas)/")
GENERATED = re.compile(r"^(..)/c\1[a-z2-7]{49}\.py:")  # by inductor: kernels, and calls of them
AUTOGRAD = "autograd/graph.py"  # the thread is in a backward pass, whose operations are known


def line_ms(evidence: Evidence, counts: Callable[[Sampled], bool]) -> dict[Line, float]:
    """Milliseconds of a step at each line, by those samples of it that count."""
    found: Counter[Line] = Counter()
    for each in evidence.sampled:
        if not each.waiting and counts(each):
            found[each.where] += each.samples
    total = sum(each.samples for each in evidence.sampled)
    step_ms = evidence.median_ms() if total else 0.0
    return {line: samples / total * step_ms for line, samples in found.items()}


def in_forward(sample: Sampled) -> bool:
    """Whether the thread was in no backward pass."""
    return AUTOGRAD not in sample.inside


def empties_cache(sample: Sampled) -> bool:
    """Whether the driver was freeing memory, with nothing launched meanwhile."""
    return sample.inside.endswith("cuda/memory.py:empty_cache")


def is_compiled(sample: Sampled) -> bool:
    """Whether the thread was in what a compiler made of the line."""
    return bool(GENERATED.match(sample.inside))


def is_own(sample: Sampled) -> bool:
    """Whether the innermost function was the line's own, or one of a library for such work."""
    file = f"{PurePath(sample.where.path).name}:{sample.where.function}"
    own = sample.inside.endswith(file) or in_library(sample)
    return own and bool(sample.where.path)


def in_library(sample: Sampled) -> bool:
    """Whether the innermost function was one of a library that a script does its own work with."""
    return bool(LIBRARIES.match(sample.inside))


def beyond_torch(
    evidence: Evidence, counts: Callable[[Sampled], bool], torch: Callable[[Operation], bool]
) -> dict[Line, float]:
    """What is left of each line's time without those operations of it that are torch's work."""
    spent = line_ms(evidence, counts)
    for each in evidence.operations:
        if each.where in spent and each.phase not in {"wait", "backward"} and torch(each):
            spent[each.where] -= each.micros / 1e3
    return {line: ms for line, ms in spent.items() if ms > 0}


def on_cpu(operation: Operation) -> bool:
    """Whether all its tensors are in the host's memory."""
    given = tensors(operation)
    return bool(given) and all(each.device == "cpu" for each in given)
