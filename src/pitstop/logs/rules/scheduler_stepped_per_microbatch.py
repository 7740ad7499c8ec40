"""PIT705 scheduler-stepped-per-microbatch."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn, finite, longest_tail
from pitstop.logs.tags import rates

FLOOR = 0.05  # of the peak; below it next to nothing is learned
HIGH = 0.5  # of the peak: a rate that comes back so far goes through its schedule again
EARLY = 0.6  # of the run; schedules that end later than this may be meant so
FEWEST = 20  # entries that show a schedule
GRADUAL = 8  # different rates on the way down; a few are steps that somebody chose


@rule("PIT705")
def scheduler_stepped_per_microbatch(run: Run) -> Iterator[Finding]:
    """The learning rate reaches the end of its schedule long before the run does.

    Bad:
        Run(
            "a",
            (Series("lr", tuple(range(80)), tuple(max(0.0, 1 - n / 20) for n in range(80))),),
        )

    Good:
        Run("a", (Series("lr", tuple(range(80)), tuple(1 - n / 80 for n in range(80))),))
    """
    for series in rates(run):
        place = _end_of_schedule(series)
        if place is None:
            continue
        end, last = series.steps[place], series.steps[-1]
        times = (last - series.steps[0]) / max(1e-9, end - series.steps[0])
        again = max(finite(series.values[place:])) > HIGH * max(finite(series.values))
        then = "and rises again" if again else "and stays there"
        yield Finding(
            f"{series.tag} is at its floor from step {at(end)} of {at(last)} {then}: its schedule "
            f"ended {times:.1f} times too early.",
            item=series.tag,
            cure="step the scheduler once per optimizer step, and give it the steps of the run",
            confidence="suspected",
            curves=(drawn(series),),
            mark=end,
        )
        return


def _end_of_schedule(series: Series) -> int | None:
    """Where the rate arrives at its floor, if that is early and it stays or comes back slowly."""
    values = series.values
    if len(finite(values)) < max(FEWEST, len(values)):
        return None
    peak = max(values)
    top = values.index(peak)
    place = next((n for n in range(top, len(values)) if values[n] <= FLOOR * peak), None)
    if place is None or place > EARLY * len(values) or len(set(values[top:place])) < GRADUAL:
        return None
    after = values[place:]
    if max(after) <= FLOOR * peak:
        tail = longest_tail(values)  # a rate that still falls is on its way, not at its end
        return len(values) - tail if tail >= (1 - EARLY) * len(values) else None
    back = next((n for n, value in enumerate(after) if value > HIGH * peak), len(after))
    rising = sum(value > FLOOR * peak for value in after[:back])  # a restart jumps up at once
    return place if back < len(after) and rising >= GRADUAL else None
