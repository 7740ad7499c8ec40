"""History: what past runs have logged, as plain values. Rules look at one run at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one tag, in the order of their steps."""

    tag: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    times: tuple[float, ...] = ()  # seconds since 1970; empty where the log has none
    logged: int = 0  # points in the log; more than these where a long series was thinned


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its name, the kind of its log, and all it has logged."""

    name: str
    series: tuple[Series, ...]
    kind: str = ""  # "TensorBoard", "CSV", "JSON lines", "W&B", "Trainer"
    torn: str = ""  # where and how its log is damaged or ends early

    @property
    def last_step(self) -> float:
        """Of whatever was logged last."""
        return max((series.steps[-1] for series in self.series if series.steps), default=0.0)


@dataclass(frozen=True, slots=True)
class Logs:
    """All runs below one path."""

    runs: tuple[Run, ...] = ()
    skipped: tuple[str, ...] = ()
