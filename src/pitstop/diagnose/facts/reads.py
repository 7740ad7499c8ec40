"""Reads: numbers that Python takes out of tensors, and the time that a step loses over them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.evidence import Line, Operation
from pitstop.core.ledger import Ledger, Row
from pitstop.diagnose.facts.operations import EMPTYING, by_line, short, tensors
from pitstop.diagnose.facts.row_loops import READ, READERS, ROWS, VIEWS, is_beside
from pitstop.diagnose.facts.transfers import copy_lines
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.01  # of the step, on a GPU; a suspicion that costs less is cleared
WORTH_ON_A_CPU = 0.05  # of the step there, where the read itself is all that can be saved
ROUND_MS = 0.03  # of a CPU, to take a number, read it and go on; the rest of the line is other work
NOT_OF_THE_LOOP = {"optimizer", "wait"}  # an optimizer reads its counters, a dataset its labels
FEWEST_NUMBERS = 20  # read by one line of a step; a few are metrics that somebody logs
WORDS = {
    READ: "`.item()`",
    "_to_copy": "`.cpu()`",
    "copy_": "`.cpu()`",
    "nonzero": "`nonzero`",
    "masked_select": "a mask as index",
    "index": "a mask as index",
    "torch.Tensor.tolist": "`.tolist()`",
    "torch.Tensor.numpy": "`.numpy()`",
    "torch.Tensor.__repr__": "printing a tensor",
}


@dataclass(frozen=True, slots=True)
class Read:
    """All reads of one line in a step, and what the ledger has for them."""

    where: Line
    what: str
    calls: int
    claims: tuple[Row, ...]
    most_ms: float = math.inf  # that the reads themselves can take

    @property
    def ms(self) -> float:
        """The time of all these rows, as far as it is the reads' own."""
        return min(self.most_ms, sum(row.ms for row in self.claims))


def waiting_reads(recording: Recording, ledger: Ledger) -> Iterator[Read]:
    """The lines after which the GPU runs dry because Python waited for it, dearest first."""
    evidence = recording.evidence
    lines = by_line(evidence.operations)
    waits = {row.where for row in ledger.rows if row.cause == "sync" and row.where.path}
    waits -= copy_lines(recording).keys()
    for line in sorted(waits, key=lambda each: -ledger.total("sync", where=each)):
        operations = lines.get(line, [])
        claims = ledger.chosen("sync", where=line)
        if ledger.at_stake(ledger.total("sync", where=line)) < WORTH_MENTIONING:
            continue
        if _has_to_wait(operations):
            continue
        waiting = [each for each in operations if each.waits]
        first = max(waiting, key=lambda each: each.calls, default=None)
        what = WORDS.get(short(first), f"`{short(first)}`") if first else "This line"
        yield Read(line, what, sum(each.calls for each in waiting), claims)


def number_loops(recording: Recording, ledger: Ledger) -> Iterator[Read]:
    """The lines that read one number after the other, dearest first; for runs on the CPU."""
    own = [each for each in recording.evidence.operations if each.phase not in NOT_OF_THE_LOOP]
    lines = by_line(own)
    found = []
    for line, operations in lines.items():
        counts = {what: _calls(operations, what) for what in READERS}
        what, reads = max(counts.items(), key=lambda item: item[1])
        if reads >= FEWEST_NUMBERS:
            taking = [near for near in lines if _takes_for(near, line, lines[near], reads)]
            claims = [row for each in (line, *taking) for row in ledger.chosen(where=each)]
            found.append(Read(line, WORDS[what], reads, tuple(claims), reads * ROUND_MS))
    dear = [each for each in found if ledger.at_stake(each.ms) >= WORTH_ON_A_CPU]
    yield from sorted(dear, key=lambda each: -each.ms)


def _calls(operations: list[Operation], name: str) -> int:
    return sum(each.calls for each in operations if short(each) == name)


def _takes_for(near: Line, line: Line, operations: list[Operation], reads: int) -> bool:
    """Whether a line beside does nothing but take the rows that are read."""
    takes = {short(each) for each in operations} <= {*ROWS, *VIEWS}
    beside = near != line and is_beside(near, line)
    return beside and takes and sum(map(_taken, operations)) >= reads


def _taken(operation: Operation) -> int:
    """The rows that it takes, however many walks they are of."""
    given = tensors(operation)
    all_of_them = short(operation) == "unbind" and given and given[0].sizes
    return operation.calls * (given[0].sizes[0] if all_of_them else 1)


def _has_to_wait(operations: list[Operation]) -> bool:
    """Whether it is a gradient scaler's look at the gradients, or has a rule of its own."""
    names = {each.name for each in operations}
    scaler = any(each.phase == "optimizer" for each in operations)
    return scaler or EMPTYING in names or any("_amp_" in name for name in names)
