"""Results as text: a table of forms, and one of edits, for a terminal and for Markdown."""

from collections.abc import Sequence

from pitstop.core.comparison import Comparison
from pitstop.core.units import binary_bytes, milliseconds, percent
from pitstop.workloads.results import BenchResult, Measured, Quality

Row = tuple[str, ...]
FORMS = ("", "step", "middle half", "against as found", "samples/s", "data wait", "peak memory")
EDITS = ("edit", "alone", "in sum", "what")


def table(result: BenchResult) -> str:
    """One system, for a terminal."""
    title = f"{result.system}, {result.size}, {result.machine}"
    lines = [title, *_aligned(form_rows(result))]
    if result.gains:
        lines += ["", *_aligned([row[:-1] for row in gain_rows(result)])]
    if result.note:
        lines.append(f"note: {result.note}")
    return "\n".join(lines) + "\n"


def form_rows(result: BenchResult) -> list[Row]:
    """The forms under their titles; columns for phases and quality where there are any."""
    phases = sorted({phase for form in result.forms for phase in form.phases_ms})
    metric = next((form.quality.metric for form in result.forms if form.quality), "")
    head = (*FORMS, *phases, *([metric] if metric else []))
    return [head, *(_form_row(form, phases, bool(metric)) for form in result.forms)]


def _form_row(form: Measured, phases: Sequence[str], with_quality: bool) -> Row:
    took = [
        milliseconds(form.phases_ms[phase]) if phase in form.phases_ms else "n/a"
        for phase in phases
    ]
    return (
        form.name,
        milliseconds(form.step_ms),
        f"{milliseconds(form.low_ms)} to {milliseconds(form.high_ms)}",
        ratio(form.step) if form.step else "",
        f"{form.samples_per_s:.3g}",
        f"{milliseconds(form.wait_ms)}, {percent(form.wait_ms / form.step_ms)}",
        memory(form),
        *took,
        *([quality(form.quality)] if with_quality else []),
    )


def gain_rows(result: BenchResult) -> list[Row]:
    """The waterfall: each edit alone, and with those before it."""
    rows = [
        (each.name, ratio(each.alone), ratio(each.together), each.what) for each in result.gains
    ]
    return [EDITS, *rows]


def ratio(found: Comparison) -> str:
    """How many times as fast: ``2.41 (2.38 to 2.45)``; what is not clear says so."""
    if not found.ratio:
        return "n/a"
    times = f"{1 / found.ratio:.2f}x"
    if not (found.low and found.high):
        return f"{times}, {found.pairs} pairs"
    ends = f"{times} ({1 / found.high:.2f} to {1 / found.low:.2f})"
    return ends if found.verdict in {"better", "worse"} else f"{ends}, {found.verdict}"


def memory(form: Measured) -> str:
    """Of the GPU where there is one."""
    return binary_bytes(form.gpu_bytes or form.host_bytes)


def quality(found: Quality | None) -> str:
    """The metric before and after."""
    if found is None:
        return "n/a"
    before, after = ("n/a" if x is None else f"{x:.4g}" for x in (found.before, found.after))
    return f"{before} to {after}, {found.steps} steps"


def markdown(rows: Sequence[Row]) -> str:
    """Rows under their titles as a table of Markdown."""
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *rest]) + "\n"


def _aligned(rows: Sequence[Row]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
