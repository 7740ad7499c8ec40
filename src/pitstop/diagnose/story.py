"""Summary: what a recording says before anybody thinks about it, as a Report."""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from pitstop.core.evidence import Evidence, Line, Loader
from pitstop.core.report import Report, Table
from pitstop.core.units import binary_bytes, milliseconds, percent

ROWS = {
    "data_wait_ms": "waiting for data",
    "forward_ms": "forward",
    "backward_ms": "backward",
    "optimizer_ms": "optimizer",
    "other_ms": "everything else",
}
KIND = {
    "optimizer": "a step ends when the optimizer has stepped",
    "loader": "no optimizer: a step is the work on one batch",
    "module": "no optimizer, no DataLoader: a step is one call of the model",
    "marked": "steps as marked by the script",
}
MARK = "mark a step: `with pitstop.step(): ...` around the body of the loop"
TOP_OPERATIONS = 12


def summarise(evidences: Sequence[Evidence], name: str, code: int | None) -> Report:
    """The report of one recording."""
    first = evidences[0]
    if not first.steady:
        return _without_steps(first, name, code)
    low, high = first.quartiles_ms()
    total = milliseconds(first.median_ms())
    waits = first.median_ms("data_wait_ms") / first.median_ms()
    return Report(
        command="profile",
        verdict=f"{name}: {total} per step, {percent(waits)} of it waiting for data.",
        why=f"Median of {len(first.steady)} undisturbed steps, the middle half "
        f"{milliseconds(low)} to {milliseconds(high)}; {KIND[first.step_kind]}.",
        next="pitstop runs lists the recordings, pitstop report shows one again",
        tables=tuple(_tables(evidences)),
        notes=tuple(_remarks(first, code)),
    )


def _without_steps(evidence: Evidence, name: str, code: int | None) -> Report:
    seen = f"{len(evidence.steps)} finished steps, {len(evidence.loaders)} DataLoaders"
    return Report(
        command="profile",
        verdict=f"{name}: no undisturbed step was finished, so there is no step time.",
        why=f"Seen: {seen}, {sum(each.batches for each in evidence.loaders)} batches.",
        next="record more steps" if evidence.steps else MARK,
        notes=(*_remarks(evidence, code), *evidence.stacks),
    )


def _tables(evidences: Sequence[Evidence]) -> Iterator[Table]:
    first = evidences[0]
    yield _phases(first)
    if len(evidences) > 1:
        rows = [
            (
                f"rank {each.rank}",
                *(milliseconds(each.median_ms(field)) for field in ("total_ms", *ROWS)),
            )
            for each in evidences
            if each.steady
        ]
        yield Table("median per step", ("step", *ROWS.values()), tuple(rows))
    if first.operations:
        yield _operations(first)
    yield Table("memory", ("peak",), tuple(_memory(first)))
    if first.loaders:
        columns = ("batches", "workers", "pinned", "persistent", "prefetch")
        yield Table("loader", columns, tuple(map(_loader, first.loaders)))


def _phases(evidence: Evidence) -> Table:
    """Means, which add up; the median step is in the verdict."""
    step = evidence.mean_ms("total_ms")
    rows = []
    for field, label in ROWS.items():
        mean = evidence.mean_ms(field)
        rows.append((label, milliseconds(mean), percent(mean / step)))
    rows.append(("step (mean)", milliseconds(step), "100 %"))
    return Table("phase", ("per step", "share"), tuple(rows))


def _operations(evidence: Evidence) -> Table:
    """The dearest operations by their time on the device, which on a CPU is the thread itself."""
    operations = evidence.operations
    on_gpu = any(each.device_micros for each in operations)
    timed = [(each.device_micros or 0 if on_gpu else each.micros, each) for each in operations]
    total = sum(micros for micros, _ in timed)
    rows = []
    for micros, each in sorted(timed, key=lambda pair: -pair[0])[:TOP_OPERATIONS]:
        share = percent(micros / total) if total else "n/a"
        time = milliseconds(micros / 1e3)
        rows.append((_short(each.name), _place(each.where), str(each.calls), time, share))
    title = "operation, on the GPU" if on_gpu else "operation, inspected step"
    return Table(title, ("line", "calls", "time", "share"), tuple(rows))


def _short(name: str) -> str:
    """``aten.convolution_backward.default`` as people say it."""
    return name.removeprefix("aten.").removesuffix(".default")


def _place(line: Line) -> str:
    """File and line; the last two parts of a path say enough on a screen."""
    if not line.path:
        return "autograd"
    return f"{'/'.join(Path(line.path).parts[-2:])}:{line.line}"


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
