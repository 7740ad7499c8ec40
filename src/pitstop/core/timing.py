"""Timing: repeated measurements, and whether they can be trusted."""

from dataclasses import dataclass
from statistics import median, quantiles

NOISE_LIMIT = 0.10  # interquartile range over median; above this a comparison is a coin toss


@dataclass(frozen=True, slots=True)
class Timing:
    """At least four measurements of one thing, in milliseconds."""

    samples_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.samples_ms) < 4:
            raise ValueError(f"{len(self.samples_ms)} samples: measure at least 4 times")

    @property
    def median_ms(self) -> float:
        """The middle sample: one slow outlier does not move it."""
        return median(self.samples_ms)

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        low, _, high = quantiles(self.samples_ms, n=4)
        return (high - low) / self.median_ms

    @property
    def noisy(self) -> bool:
        """Whether the samples spread too far to compare with another timing."""
        return self.spread > NOISE_LIMIT
