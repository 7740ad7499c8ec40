"""Evidence: what one run did, as plain numbers. No tensors, no torch."""

from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Step:
    """Wall time of one training or inference step, and where it went."""

    total_ms: float
    data_wait_ms: float = 0.0
    sync_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One recorded run: all that a run-time rule may look at. A run may have finished no step."""

    steps: tuple[Step, ...] = ()
    warmup_steps: int = 0

    def mean_ms(self, field: str) -> float:
        """Mean of one ``Step`` field over the steps after warm-up."""
        steady = self.steps[self.warmup_steps :]
        if not steady:
            raise ValueError(f"{len(self.steps)} steps, all of them warm-up: record more steps")
        return fmean(getattr(step, field) for step in steady)
