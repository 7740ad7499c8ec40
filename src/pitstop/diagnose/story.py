"""Story: a diagnosed recording as a Report, the answer first."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pitstop.core.evidence import PHASES, Evidence, Loader
from pitstop.core.finding import Finding
from pitstop.core.ledger import Cause, Ledger
from pitstop.core.report import Report, Table
from pitstop.core.units import binary_bytes, count, milliseconds, percent
from pitstop.diagnose.place import excerpt
from pitstop.diagnose.recording import Recording

KIND = {
    "optimizer": "a step ends when the optimizer has stepped",
    "loader": "no optimizer: a step is the work on one batch",
    "module": "no optimizer, no DataLoader: a step is one call of the model",
    "marked": "steps as marked by the script",
}
CAUSES: dict[Cause, str] = {
    "data": "waiting for data",
    "sync": "idle after synchronisations",
    "transfer": "idle in transfers",
    "launch": "idle between launches",
    "python": "Python",
    "unused": "work that nobody uses",
    "repeated": "repeated calls",
    "layout": "layout conversion",
    "copy": "copies",
    "optimizer": "the optimizer",
    "above": "operations above their floor",
    "precision": "a slower precision than it has",
}
WORTH_SAYING = 0.05  # of the step: causes below this are left to the table
MOST_CAUSES = 3
MARK = "mark a step: `with pitstop.step(): ...` around the body of the loop"
MEND = "mend the script first: it ended before its first step"


def tell(recording: Recording, findings: Sequence[Finding], name: str, code: int | None) -> Report:
    """The report of one recording. ``code`` is how the script ended."""
    first = recording.evidence
    ledger = recording.ledger
    shown = tuple(replace(each, excerpt=excerpt(each.span)) for each in findings)
    report = Report(
        command="profile",
        verdict=_verdict(first, ledger, name),
        why=_why(first, ledger),
        next=_next(first, shown, code),
        where=_where(shown),
        machine=recording.machine,
        ledger=ledger,
        tables=tuple(_tables(recording.ranks)),
        findings=shown,
        notes=(*_remarks(first, code), *first.stacks),
        ranks=recording.ranks,
    )
    return report


def _verdict(evidence: Evidence, ledger: Ledger | None, name: str) -> str:
    if ledger is None:
        return f"{name}: no undisturbed step was finished, so there is no step time."
    total = milliseconds(ledger.step_ms)
    if ledger.floor_ms is None or not evidence.operations:
        return f"{name}: {total} per step."
    return f"{name}: {total} per step; this machine could do it in {milliseconds(ledger.floor_ms)}."


def _why(evidence: Evidence, ledger: Ledger | None) -> str:
    if ledger is None:
        seen = f"{len(evidence.steps)} finished steps, {len(evidence.loaders)} DataLoaders"
        return f"Seen: {seen}, {sum(each.batches for each in evidence.loaders)} batches."
    shares = {cause: ledger.share(ledger.total(cause)) for cause in CAUSES}
    named = sorted(shares, key=lambda cause: -shares[cause])[:MOST_CAUSES]
    said = [f"{percent(shares[cause])} {CAUSES[cause]}" for cause in named]
    large = [text for cause, text in zip(named, said, strict=True) if shares[cause] > WORTH_SAYING]
    low, high = evidence.quartiles_ms()
    spread = f"{count(len(evidence.steady), 'undisturbed step')}, the middle half "
    spread += f"{milliseconds(low)} to {milliseconds(high)}; {KIND[evidence.step_kind]}."
    return f"{', '.join(large)}. {spread}" if large else spread


def _next(evidence: Evidence, findings: Sequence[Finding], code: int | None) -> str:
    if not evidence.steady and evidence.steps:
        return "record more steps"
    if not evidence.steps and code:
        return MEND
    cured = [each for each in findings if each.cure]
    if cured:
        return f"{cured[0].cure} (pitstop explain {cured[0].code})"
    return "pitstop report last --output step.html shows it as a page" if evidence.steps else MARK


def _where(findings: Sequence[Finding]) -> str:
    return next((f"{each.span.path}:{each.span.line}" for each in findings if each.span), "")


def _tables(ranks: Sequence[Evidence]) -> Iterator[Table]:
    first = ranks[0]
    if first.steady:
        yield _phases(first)
    if len(ranks) > 1:
        rows = [
            (
                f"rank {each.rank}",
                *(milliseconds(each.median_ms(field)) for field in ("total_ms", *PHASES)),
            )
            for each in ranks
            if each.steady
        ]
        yield Table("median per step", ("step", *PHASES.values()), tuple(rows))
    yield Table("memory", ("peak",), tuple(_memory(first)))
    if first.loaders:
        columns = ("batches", "workers", "pinned", "persistent", "prefetch")
        yield Table("loader", columns, tuple(map(_loader, first.loaders)))


def _phases(evidence: Evidence) -> Table:
    """Means, which add up; the median step is in the verdict."""
    step = evidence.mean_ms("total_ms")
    rows = []
    for field, label in PHASES.items():
        mean = evidence.mean_ms(field)
        rows.append((label, milliseconds(mean), percent(mean / step)))
    rows.append(("step (mean)", milliseconds(step), "100 %"))
    return Table("phase", ("per step", "share"), tuple(rows))


def _memory(evidence: Evidence) -> Iterator[tuple[str, str]]:
    host = [each.host_bytes for each in evidence.memory if each.host_bytes]
    gpu = [each.gpu_peak_bytes for each in evidence.memory if each.gpu_peak_bytes]
    yield "host, script and workers", binary_bytes(max(host)) if host else "n/a"
    yield "GPU, allocated", binary_bytes(max(gpu)) if gpu else "n/a"


def _loader(loader: Loader) -> tuple[str, ...]:
    flags = ("yes" if flag else "no" for flag in (loader.pinned, loader.persistent))
    use = "" if loader.trains else " (no training)"
    prefetch = "n/a" if loader.prefetch is None else str(loader.prefetch)
    return (loader.dataset + use, str(loader.batches), str(loader.workers), *flags, prefetch)


def _remarks(evidence: Evidence, code: int | None) -> Iterator[str]:
    looked = sum(step.inspected for step in evidence.steps)
    yield f"{evidence.warmup_steps} warm-up steps and {looked} inspected ones, not in the step time"
    if evidence.start_s:
        yield f"start-up before the first step: {milliseconds(evidence.start_s * 1e3)}"
    for name, seconds in (("validation", evidence.validation_s), ("saving", evidence.saving_s)):
        if seconds:
            yield f"{name}, beside the steps: {milliseconds(seconds * 1e3)}"
    if evidence.left_out_slices:
        yield f"the run was long: {evidence.left_out_slices} slices were counted but not kept"
    if code:
        yield f"the script was ended by {_signal(-code)}" if code < 0 else f"its exit code: {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
