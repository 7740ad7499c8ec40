"""Results: what a bench of one system has measured, as a file that pages are made from."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pitstop.core import store
from pitstop.core.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Quality:
    """The metric of a system before its first step and after its last."""

    metric: str
    before: float | None
    after: float | None
    steps: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One form of the system: medians over its turns, and its peaks."""

    name: str
    step_ms: float
    low_ms: float  # a quarter of the steps took less
    high_ms: float  # and a quarter more
    samples_per_s: float
    wait_ms: float  # for data, of a step
    gpu_bytes: int  # at most; 0 where there is no GPU
    host_bytes: int  # with all its processes
    phases_ms: dict[str, float]
    quality: Quality | None = None  # null: it was not run to its end
    step: Comparison | None = None  # against the system as found; null for that one


@dataclass(frozen=True, slots=True)
class Gain:
    """One edit of the source: the step with it alone, and with all those before it."""

    name: str
    what: str
    alone: Comparison
    together: Comparison


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One system at one size on one machine."""

    system: str
    size: str  # "small" or "full"
    machine: str
    torch: str
    commit: str
    date: str
    command: str
    note: str
    forms: tuple[Measured, ...]
    gains: tuple[Gain, ...] = ()

    @property
    def fast(self) -> Measured | None:
        """The form after the pit stop."""
        return next((each for each in self.forms if each.name == "fast"), None)


def load_all(folder: Path) -> list[BenchResult]:
    """All that is stored, the large sizes first."""
    found = [store.load(path, BenchResult) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda each: (each.size != "full", each.system))


def save_all(folder: Path, results: Iterable[BenchResult]) -> None:
    """One file for each."""
    for each in results:
        place = "gpu" if any(form.gpu_bytes for form in each.forms) else "cpu"
        path = folder / f"{each.system}.{each.size}.{place}.json"
        store.write_text(path, store.dumps(each))
