"""Differences: what else is not equal between A and B, and may be the cause of what was seen."""

import shlex
from collections.abc import Iterator

from pitstop.compare.quantities import sample
from pitstop.compare.record import Recording
from pitstop.core.evidence import Evidence
from pitstop.profile.read.runs import About

WHAT = {
    "system": "system",
    "cores": "number of cores",
    "gpu": "GPU",
    "python": "Python version",
    "torch": "torch version",
}


def differences(a: Recording, b: Recording) -> Iterator[str]:
    """One line each: commands, machines, versions, the work of a step, its shapes."""
    if a.run.command == b.run.command:
        yield f"A and B are the same command: {shlex.join(a.run.command)}"
    else:
        yield f"A: {shlex.join(a.run.command)}"
        yield f"B: {shlex.join(b.run.command)}"
    for words, *each in places(a.about, b.about):
        yield from _line(words, *each)
    yield from _line("number of processes", len(a.evidences), len(b.evidences))
    first, second = a.evidences[0], b.evidences[0]
    yield from _line("event that ends a step", first.step_kind, second.step_kind)
    yield from _line("number of samples in a step", sample(a).batch, sample(b).batch)
    if first.calls and second.calls:
        yield from _line("shape of the model's inputs", _shapes(first), _shapes(second))
    yield from _unfinished(a, "A")
    yield from _unfinished(b, "B")


def places(a: About, b: About) -> Iterator[tuple[str, object, object]]:
    """What two runs ran on: each thing by name, of A and of B."""
    for name, words in WHAT.items():
        yield words, getattr(a, name), getattr(b, name)


def _line(words: str, a: object, b: object) -> Iterator[str]:
    if a != b:
        yield f"different {words}: A {a or 'not known'}, B {b or 'not known'}"


def _shapes(evidence: Evidence) -> str:
    """Of the calls that the script itself makes in an inspected step, each once."""
    return " ".join(dict.fromkeys(each.shapes for each in evidence.calls if each.parent < 0))


def _unfinished(recording: Recording, name: str) -> Iterator[str]:
    code = recording.run.exit_code
    if code is None:
        yield f"{name} was still running, or was killed together with its recorder"
    elif code:
        yield f"{name} ended with exit code {code}"
