"""Wording: how facts are put in every format that people read."""

from pitstop.core.comparison import Comparison
from pitstop.core.finding import Finding
from pitstop.core.report import Report, Status
from pitstop.core.trial import Trial
from pitstop.core.units import binary_bytes, change, count, milliseconds, percent, precise_percent

TRIED = ("change", "verdict", "before", "after", "gain", "promised", "note")
WORTH_SAYING = 0.1  # of the peak memory, which is sampled on a host: less comes and goes
FIRST = 3  # findings on one screen
SIDES = {"tune": ("untouched", "tuned"), "prove": ("base", "edit")}  # what is compared, by command
STATUSES: tuple[Status, ...] = ("ok", "warn", "FAIL", "n/a")


def headline(report: Report) -> list[tuple[str, str]]:
    """Label and text of the lines Verdict, Why, Gain, Next and Where that the report has."""
    lines = [
        ("Verdict", report.verdict),
        ("Why", report.why),
        ("Gain", report.gain),
        ("Next", report.next),
        ("Where", report.where),
    ]
    return [(label, text) for label, text in lines if text]


def place(finding: Finding) -> str:
    """Where a finding is: ``path:line:column``, or the item it is about; a run knows no columns."""
    if finding.span is None:
        return finding.item
    if finding.confidence == "measured":
        return finding.span.place
    return f"{finding.span.place}:{finding.span.column}"


def first(report: Report) -> list[Finding]:
    """The findings of a run that come first: what was measured, notes only where they are all."""
    sure = [each for each in report.findings if each.confidence != "suspected"]
    serious = [each for each in sure if each.severity != "note"]
    return (serious or sure)[:FIRST]


def stake(finding: Finding) -> str:
    """What a finding costs, or an empty string where nobody measured it."""
    return "" if finding.saving is None else f"{percent(finding.saving)} of each {finding.per}"


def remarks(report: Report) -> list[str]:
    """The lines below everything else: notes, then what was skipped."""
    return [*report.notes, *(f"skipped: {line}" for line in report.skipped)]


def closing(report: Report) -> str:
    """The last line: how many items were checked and how they fared."""
    if not report.checks:
        return ""
    statuses = [check.status for check in report.checks]
    counts = [f"{statuses.count(status)} {status}" for status in STATUSES if status in statuses]
    return f"{count(len(statuses), 'item')}: {', '.join(counts)}"


def trial_row(trial: Trial) -> tuple[str, ...]:
    """The cells of a trial below ``TRIED``; ``n/a`` where it did not run."""
    before = trial.before.median_ms if trial.before else None
    after = trial.after.median_ms if trial.after else None
    if trial.step and trial.step.before is not None:
        before, after = trial.step.before, trial.step.after  # these fit to the gain
    times = ("n/a" if each is None else milliseconds(each) for each in (before, after))
    promised = "" if trial.predicted is None else f"up to {percent(trial.predicted)}"
    return (trial.change, trial.verdict, *times, gain(trial), promised, trial_note(trial))


def gain(trial: Trial) -> str:
    """What a change took off the step, with its interval: ``22 % (20 to 24 %)``."""
    step = trial.step
    if step is None or step.ratio is None:
        if not trial.before or not trial.after:
            return "n/a"
        return percent(1 - trial.after.median_ms / trial.before.median_ms)
    if step.low is None or step.high is None:
        return percent(1 - step.ratio)
    ends = f"{percent(1 - step.high).removesuffix(' %')} to {percent(1 - step.low)}"
    return f"{percent(1 - step.ratio)} ({ends})"


def trial_note(trial: Trial) -> str:
    """Why this verdict, and what became of memory and numbers where they changed."""
    said = [trial.note]
    memory = trial.memory
    if memory and memory.ratio and memory.after and abs(memory.ratio - 1) >= WORTH_SAYING:
        said.append(f"peak {binary_bytes(memory.after)} ({change(memory.ratio)})")
    if trial.drift and trial.verdict != "drifted":  # which says so itself
        allowed = "" if trial.tolerance is None else f", {precise_percent(trial.tolerance)} allowed"
        said.append(f"numbers {precise_percent(trial.drift)} apart{allowed}")
    return "; ".join(filter(None, said))


def sides(report: Report) -> tuple[str, str]:
    """What is compared, as the titles of its columns."""
    return SIDES.get(report.command, ("A", "B"))


def compared(report: Report) -> tuple[str, ...]:
    """The titles above the rows of comparisons."""
    return ("metric", "verdict", *sides(report), "change", "interval", "why")


def comparison_row(each: Comparison) -> tuple[str, ...]:
    """The cells of a comparison below ``compared``; ``n/a`` where nothing was measured."""
    name = each.unit if each.unit.endswith("/s") else each.metric
    ratio = "n/a" if each.ratio is None else change(each.ratio)
    values = (_quantity(value, each.unit) for value in (each.before, each.after))
    return (name, each.verdict, *values, ratio, interval(each), each.reason)


def interval(each: Comparison) -> str:
    """``+8.2 to +12 %``; ``n/a`` where there were too few pairs for one."""
    if each.low is None or each.high is None:
        return "n/a"
    return f"{change(each.low).removesuffix(' %')} to {change(each.high)}"


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "n/a"
    if unit == "ms":
        return milliseconds(value)
    return binary_bytes(value) if unit == "bytes" else f"{value:.4g}"
