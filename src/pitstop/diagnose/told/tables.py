"""Tables: phases, ranks, memory and loaders of a run, in words and numbers."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from pitstop.core.evidence import PHASES, Evidence, Loader, phases
from pitstop.core.memory import peak_bytes
from pitstop.core.report import Table
from pitstop.core.units import binary_bytes, milliseconds, percent
from pitstop.diagnose.ledger.usual import usual_steps


def tables(ranks: Sequence[Evidence]) -> Iterator[Table]:
    """What a report shows besides the ledger and the findings."""
    first = ranks[0]
    if first.steady:
        yield _phases(first)
    if len(ranks) > 1:
        yield _ranks([each for each in ranks if each.steady])
    yield Table("memory", ("peak",), tuple(_memory(first)))
    if first.loaders:
        columns = ("batches", "workers", "pinned", "persistent", "prefetch")
        yield Table("loader", columns, tuple(map(_loader, first.loaders)))


def _phases(evidence: Evidence) -> Table:
    """Means over the usual steps, which add up, and agree with the median step of the ledger."""
    steps = usual_steps(evidence)
    whole = fmean(step.total_ms for step in steps)
    rows = []
    for field, label in PHASES.items():
        mean = fmean(getattr(step, field) for step in steps)
        if mean:
            rows.append((label, milliseconds(mean), percent(mean / whole)))
    rows.append(("step", milliseconds(whole), "100 %"))
    return Table("a typical step", ("per step", "share"), tuple(rows))


def _ranks(ranks: Sequence[Evidence]) -> Table:
    """Each rank's medians."""
    known = phases(ranks)
    rows = [
        (
            f"rank {each.rank}",
            *(milliseconds(each.median_ms(name)) for name in ("total_ms", *known)),
        )
        for each in ranks
    ]
    return Table("median per step", ("step", *known.values()), tuple(rows))


def _memory(evidence: Evidence) -> Iterator[tuple[str, str]]:
    host = [each.host_bytes for each in evidence.memory if each.host_bytes]
    gpu = peak_bytes(evidence)
    yield "host, script and workers", binary_bytes(max(host)) if host else "n/a"
    if gpu or (evidence.settings and evidence.settings.device == "cuda"):
        yield "GPU, allocated", binary_bytes(gpu) if gpu else "n/a"


def _loader(loader: Loader) -> tuple[str, ...]:
    flags = ("yes" if flag else "no" for flag in (loader.pinned, loader.persistent))
    use = "" if loader.trains else " (no training)"
    prefetch = "n/a" if loader.prefetch is None else str(loader.prefetch)
    return (loader.dataset + use, str(loader.batches), str(loader.workers), *flags, prefetch)
