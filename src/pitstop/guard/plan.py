"""Plan: what the launching process asks of the guard in the script's process; needs no torch."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

BEGIN = "pitstop.guard.begin:begin"  # what ``profile`` calls in the script's process
SEEN = "guarded"  # how a file begins that says: an optimizer of this process is guarded

Policy = Literal["stop", "skip", "rewind"]
POLICIES: tuple[Policy, ...] = ("stop", "skip", "rewind")


@dataclass(frozen=True, slots=True)
class GuardPlan:
    """Travels as JSON."""

    policy: Policy
    folder: str

    def to_json(self) -> str:
        """The argument of ``begin``."""
        return json.dumps(asdict(self))


def read_guard_plan(text: str) -> GuardPlan:
    """The plan that ``to_json`` wrote."""
    return GuardPlan(**json.loads(text))
