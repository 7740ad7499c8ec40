"""Fusing: elementwise operations, each of which reads memory and writes it for the next to read.

Compiled, those of one module call, forward or backward, become one kernel or few. The dearest of
them then remains: what it reads and writes, somebody must.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pitstop.core.evidence import NOWHERE, Evidence, Line, Operation
from pitstop.diagnose.facts.attention import attentions, home
from pitstop.diagnose.facts.calls import timed
from pitstop.diagnose.facts.operations import short
from pitstop.diagnose.facts.waste import needless_calls

ARITHMETIC = {"add", "sub", "rsub", "mul", "div", "neg", "pow", "sqrt", "rsqrt", "reciprocal"}
FUNCTIONS = {"abs", "exp", "log", "sin", "cos", "clamp", "maximum", "minimum", "where"}
ACTIVATIONS = {"relu", "leaky_relu", "threshold", "gelu", "silu", "sigmoid", "tanh"}
MOVES = {"_to_copy", "copy", "clone", "masked_fill", "native_dropout"}
ELEMENTWISE = ARITHMETIC | FUNCTIONS | ACTIVATIONS | MOVES

Timed = tuple[Operation, float]  # an operation and its microseconds


@dataclass(frozen=True, slots=True)
class Fusable:
    """The elementwise operations of a step, and what fusing them would spare."""

    calls: int = 0
    micros: float = 0.0
    spared_micros: float = 0.0
    where: Line = NOWHERE  # that would be spared most
    operations: tuple[Operation, ...] = ()


def fusable(evidence: Evidence) -> Fusable:
    """What the step's elementwise operations take, but for those that another rule is about."""
    chains = list(_chains(evidence))
    lines: dict[Line, float] = defaultdict(float)
    for chain in chains:
        for each, micros in sorted(chain, key=lambda one: -one[1])[1:]:
            lines[each.where] += micros
    return Fusable(
        sum(each.calls for chain in chains for each, _ in chain),
        sum(micros for chain in chains for _, micros in chain),
        sum(lines.values()),
        max(lines, key=lambda line: lines[line], default=NOWHERE),
        tuple(each for chain in chains for each, _ in chain),
    )


def _chains(evidence: Evidence) -> Iterator[list[Timed]]:
    """The elementwise operations of each module call or function, forward and backward apart."""
    needless = needless_calls(evidence)
    scores = {id(each) for one in attentions(evidence) for each, _ in one.operations}
    groups: dict[object, list[Timed]] = defaultdict(list)
    for each, micros in timed(evidence):
        told = id(each) in scores  # by the rule for attention that is written out
        if each.phase != "optimizer" and each.call not in needless and not told:
            call, function = home(evidence.calls, each.call), (each.where.path, each.where.function)
            groups[call if call >= 0 else function].append((each, micros))
    for group in groups.values():
        found = list(_elementwise(group))
        yield [one for one in found if not one[0].backward]
        yield [one for one in found if one[0].backward]


def _elementwise(group: Sequence[Timed]) -> Iterator[Timed]:
    """Those that run on the device and compute."""
    for each, micros in group:
        if micros and _is_elementwise(each) and not each.layout_micros:
            yield each, micros


def _is_elementwise(operation: Operation) -> bool:
    """In place or not, forward or backward."""
    return short(operation).removesuffix("_backward").removesuffix("_") in ELEMENTWISE
