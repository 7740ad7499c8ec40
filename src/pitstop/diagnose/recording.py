"""Recording: all that a run-time rule may look at."""

from dataclasses import dataclass, field
from functools import cached_property

from pitstop.core.evidence import Evidence
from pitstop.core.ledger import Ledger
from pitstop.core.machine import Limits, Machine
from pitstop.diagnose.ledger.ledger import account


@dataclass(frozen=True)
class Recording:
    """A run's evidence, one for each rank, and the machine it ran on."""

    ranks: tuple[Evidence, ...]
    machine: Machine = field(default_factory=Machine)

    @property
    def evidence(self) -> Evidence:
        """The first rank: what one process shows, it shows."""
        return self.ranks[0]

    @cached_property
    def ledger(self) -> Ledger | None:
        """Where the step of the first rank went; nothing where no step was finished."""
        if not self.evidence.steady:
            return None
        return account(self.evidence, self.limits, self.machine.cores)

    @property
    def limits(self) -> Limits | None:
        """The measured ceilings of the device that the model is on."""
        settings = self.evidence.settings
        device = settings.device if settings else "cpu"
        return next((each for each in self.machine.limits if each.device.startswith(device)), None)
