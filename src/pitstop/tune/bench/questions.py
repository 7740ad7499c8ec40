"""Questions: what the parent asks of the bench, and what that answers, over one connection.

Both sides read this file, so it needs nothing but Python itself. A change is known by its place in
the plan, so that several sets of options of one change can be told apart.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Client, Connection
from typing import Any

from pitstop.tune.plan import Outcome, Wanted

BEGIN = "pitstop.tune.bench.child:begin"  # what ``profile`` calls in the child
TWIN, BLOCK, END = "twin", "block", "end"
STEP, CALL = "step", "call"  # what happens twice: a whole step, or each call of a model


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """All that the bench may switch, and where its parent listens. Travels as JSON."""

    changes: tuple[Wanted, ...]  # that can be switched
    fixed: tuple[Wanted, ...]  # in force from the beginning to the end
    address: str
    key: str  # of the connection
    trains: bool  # steps end with an optimizer's
    level: str = STEP  # what happens twice
    warmup: int = 4  # steps before the first question: optimizers have a state by then
    seed: int = 0

    def to_json(self) -> str:
        """The argument of ``begin``."""
        return json.dumps(asdict(self))


def read_bench_plan(text: str) -> BenchPlan:
    """The plan that ``to_json`` wrote."""
    fields = json.loads(text)
    for name in ("changes", "fixed"):
        fields[name] = tuple(Wanted(**each) for each in fields[name])
    return BenchPlan(**fields)


@dataclass(frozen=True, slots=True)
class Question:
    """What to do next: a twin of a step, or a block of steps that is timed."""

    kind: str
    off: tuple[int, ...] = ()  # what is switched on in the first pass, by place
    on: tuple[int, ...] = ()  # and in the second; of a block, this alone counts
    moved: str = ""  # before the second pass each weight moves by a unit of this precision
    units: int = 1
    seed: int | None = None  # of all generators, in the first pass
    seed_on: int | None = None  # and in the second
    still: float = 1e-3  # of the whole: what is less in one parameter may be rounding alone
    steps: int = 1  # of a block
    lead: int = 1  # steps before them that are not timed
    without_waits: bool = False  # what its loaders take is no part of its time


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question."""

    problem: str = ""  # why there is no answer; the process goes on
    distances: Mapping[str, float] = field(default_factory=dict)  # by quantity, as shares
    losses: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())  # of both passes
    wrong: str = ""  # what is plainly different, whatever the size of any number
    ms: float | None = None  # of a step of the block
    waited_ms: float = 0.0  # for data, in such a step
    outcomes: tuple[Outcome, ...] = ()  # of all changes, in the order of the plan
    peak_bytes: int | None = None  # of memory in the second pass, or in the block
    compiled: int = 0  # functions that were compiled meanwhile: such a block tells nothing


class Line:
    """The child's end of the connection; of several ranks, each has one."""

    def __init__(self, plan: BenchPlan) -> None:
        self._connection: Connection = Client(plan.address, authkey=bytes.fromhex(plan.key))
        rank = int(os.environ.get("RANK", "0"))
        self._send({"rank": rank, "of": int(os.environ.get("WORLD_SIZE", "1"))})

    def ask(self, answer: Answer) -> Question:
        """Send what came of the last question; wait for the next one."""
        try:
            self._send(asdict(answer))
            fields = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):  # the parent has gone
            return Question(END)
        return Question(**{**fields, "off": tuple(fields["off"]), "on": tuple(fields["on"])})

    def _send(self, value: dict[str, Any]) -> None:
        self._connection.send_bytes(json.dumps(value).encode())


def answer_of(fields: dict[str, Any]) -> Answer:
    """The answer that a child has sent."""
    before, after = fields["losses"]
    outcomes = tuple(Outcome(**each) for each in fields["outcomes"])
    return Answer(**{**fields, "losses": (tuple(before), tuple(after)), "outcomes": outcomes})
