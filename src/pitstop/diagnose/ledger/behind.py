"""Behind: the rows of the ledger that operations of the inspected step are booked in."""

from collections.abc import Iterable

from pitstop.core.evidence import Evidence, Operation
from pitstop.core.ledger import BUSY, Cause, Ledger, Row
from pitstop.diagnose.facts.operations import short
from pitstop.diagnose.facts.waste import with_inner


def rows_behind(ledger: Ledger, operations: Iterable[Operation], *causes: Cause) -> tuple[Row, ...]:
    """The rows of these operations, of some causes or of all in which the device is busy."""
    known = {(short(each), each.where) for each in operations}
    return tuple(row for row in ledger.chosen(*causes or BUSY) if (row.what, row.where) in known)


def operations_in(evidence: Evidence, calls: Iterable[int]) -> list[Operation]:
    """What ran in these module calls, given by position, and in those made from them."""
    inside = with_inner(evidence, set(calls))
    return [each for each in evidence.operations if each.call in inside]
