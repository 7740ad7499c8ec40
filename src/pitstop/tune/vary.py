"""Vary: an option of the script's own, value by value against the untouched command."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pitstop.compare.judge import judge
from pitstop.compare.pairs import FEWEST, LOOKS, looks_within, measure
from pitstop.compare.quantities import Quantity, Sample
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.core.report import Table
from pitstop.core.units import change, count
from pitstop.report.wording import comparison_row, interval
from pitstop.tune.checked import RunError
from pitstop.tune.runs.costs import Costs

RATE = "samples"
COLUMNS = ("verdict", "step", "per second", "change", "interval", "peak memory", "note")


@dataclass(frozen=True, slots=True)
class Vary:
    """An option of the script and the values to give it."""

    option: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Varied:
    """What came of one value: the comparisons, or why there are none."""

    value: str
    comparisons: tuple[Comparison, ...] = ()
    interrupted: bool = False
    note: str = ""


def parse(text: str) -> Vary:
    """``--batch_size 4,8,16`` as an option and its values."""
    option, _, values = text.strip().replace("=", " ", 1).partition(" ")
    found = tuple(each.strip() for each in values.split(",") if each.strip())
    if not option or not found:
        raise PitstopError(f"--vary {text!r}: write it like '--batch_size 4,8,16'")
    return Vary(option, found)


def others(vary: Vary, words: Sequence[str]) -> Vary:
    """The values that the command does not have as it is."""
    values = tuple(
        each for each in vary.values if with_value(words, vary.option, each) != list(words)
    )
    if not values:
        raise PitstopError(f"{vary.option} {vary.values[0]} is the command as it is: name others")
    return Vary(vary.option, values)


def affordable(vary: Vary, costs: Costs, left_s: float) -> int:
    """How many pairs of each value the budget has room for; too few to tell is an error."""
    pairs = min(LOOKS[-1], costs.affordable(left_s / len(vary.values)))
    if pairs < FEWEST:
        minutes = math.ceil(len(vary.values) * costs.pairs_s(FEWEST) / 60) + 1
        raise PitstopError(
            f"the budget has room for {count(pairs, 'pair')} of runs of each value, and {FEWEST} "
            f"are the least that can tell; give --budget {minutes}, or fewer --steps"
        )
    return pairs


def with_value(words: Sequence[str], option: str, value: str) -> list[str]:
    """The command with this option set, where it stands or at the end."""
    found = list(words)
    for place, word in enumerate(found):
        if word == option and place + 1 < len(found):
            return [*found[: place + 1], value, *found[place + 2 :]]
        if word.startswith(f"{option}="):
            return [*found[:place], f"{option}={value}", *found[place + 1 :]]
    return [*found, option, value]


def sweep(
    vary: Vary,
    sample: Callable[[str | None], Sample],
    most_pairs: int,
    metrics: Sequence[Quantity] = (),
) -> list[Varied]:
    """Each value in pairs against the untouched command; ``sample(None)`` runs that one."""
    found = []
    for value in vary.values:
        try:
            times = measure(
                partial(sample, None),
                partial(sample, value),
                lambda pairs: _settled(judge(pairs.before, pairs.after, metrics)),
                looks_within(most_pairs),
            )
        except RunError as error:
            found.append(Varied(value, note=f"{error.verdict}: {error.note}"))
            continue
        judged = judge(times.before, times.after, metrics) if times.before else ()
        found.append(Varied(value, judged, times.interrupted))
        if times.interrupted:
            break
    return found


def verdict(vary: Vary, found: Sequence[Varied]) -> str:
    """The value with the highest throughput among those that are better than the untouched one."""
    better = [(_rate(each), each) for each in found if _rate(each).verdict == "better"]
    if not better:
        return f"{vary.option}: no value was proved better than the command as it is."
    rate, best = max(better, key=lambda pair: pair[0].ratio or 0.0)
    by = f"{change(rate.ratio or 1.0)} ({interval(rate)})"
    return f"{vary.option} {best.value} is the fastest: {rate.unit} {by}."


def table(vary: Vary, found: Sequence[Varied]) -> Table:
    """The sweep, a row for each value."""
    rows = [(each.value, *_cells(each)) for each in found]
    return Table(vary.option, COLUMNS, tuple(rows))


def _settled(comparisons: Sequence[Comparison]) -> bool:
    return all(each.verdict != "inconclusive" for each in comparisons if each.metric == RATE)


def _rate(varied: Varied) -> Comparison:
    """The throughput: steps are of no use where they hold different amounts of work."""
    missing = Comparison(RATE, "inconclusive")
    return next((each for each in varied.comparisons if each.metric == RATE), missing)


def _cells(varied: Varied) -> tuple[str, ...]:
    rows = {each.metric: comparison_row(each) for each in varied.comparisons}
    note = "ended by Ctrl-C" if varied.interrupted else varied.note
    if RATE not in rows:
        return ("n/a",) * (len(COLUMNS) - 1) + (note,)
    memory = rows.get("gpu-memory") or rows.get("host-memory")
    _, said, _, rate, by, ends, why = rows[RATE]
    return said, rows["step"][3], rate, by, ends, memory[3] if memory else "n/a", note or why
