"""PIT205 constant-rebuilt-each-step."""

from collections.abc import Iterator

from pitstop.core.evidence import Line, Operation
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.diagnose.facts.operations import by_line, short
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.02  # of the step; a buffer must be registered and kept on its device
WORTH_ON_A_CPU = 0.05  # of the step there: a short one has a range that takes 2 % of it
CALL_MICROS = 50.0  # no such call takes longer by itself, nor its launch; more is a disturbance
BYTES_PER_MICRO = 500.0  # 0.5 GB/s: no machine fills memory slower than that
RAMPS = ("arange", "linspace", "logspace", "eye", "tril_indices", "triu_indices", "hann_window")
FILLED = ("zeros", "ones", "full")  # beside a ramp they belong to it; alone, sums may go there


@rule("PIT205")
def constant_rebuilt_each_step(recording: Recording) -> Iterator[Finding]:
    """A tensor that is always the same is built again in every step."""
    ledger, lines = recording.ledger, by_line(recording.evidence.operations)
    if ledger is None:
        return
    least = WORTH_MENTIONING if ledger.device == "cuda" else WORTH_ON_A_CPU
    functions: dict[tuple[str, str], list[Line]] = {}
    for line, operations in lines.items():
        if any(_is_constant(each, RAMPS + FILLED) for each in operations):
            functions.setdefault((line.path, line.function), []).append(line)
    for built in functions.values():
        ms = sum(_cost(ledger, line, lines[line]) for line in built)
        ramp = any(_is_constant(each, RAMPS) for line in built for each in lines[line])
        if ramp and ledger.at_stake(ms) >= least:
            first = min(built, key=lambda line: line.line)
            yield Finding(
                f"`{first.function}` builds the same tensors out of numbers in every step: "
                f"{cost_phrase(ms, ledger)}.",
                span=span(first),
                cure="build them once: a buffer, or a cache by shape and device",
                confidence="measured",
                metrics=(Metric("cost", ms, "ms"),),
                saving=ledger.at_stake(ms),
                claims=tuple(row for line in built for row in ledger.chosen(where=line)),
            )


def _is_constant(operation: Operation, names: tuple[str, ...]) -> bool:
    return short(operation) in names


def _cost(ledger: Ledger, line: Line, operations: list[Operation]) -> float:
    """The constants' part of what a line costs; one slow moment in one step does not count."""
    made = [each for each in operations if _is_constant(each, RAMPS + FILLED)]
    micros, whole = sum(each.micros for each in made), sum(each.micros for each in operations)
    slowest = sum(each.calls * CALL_MICROS + each.moved_bytes / BYTES_PER_MICRO for each in made)
    return min(ledger.total(where=line) * micros / whole, slowest / 1e3) if whole else 0.0
