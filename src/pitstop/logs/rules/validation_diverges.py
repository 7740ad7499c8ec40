"""PIT715 validation-diverges."""

from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from statistics import median

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, before, drawn, finite, spread
from pitstop.logs.tags import LOSS, RISING, is_checked, losses, partner

FEWEST = 4  # validations; fewer are no curve
RISEN = 1.1  # times its lowest value
WORSE = 0.2  # of what a metric had gained since its first value
BLOCKS = 10  # of the validations; their medians are not moved by a single one
LATE = 0.8  # of the run: a minimum later than this may be noise
FAR = 6.0  # times the usual noise: no chance
WINDOW = 10  # training losses around a step
FALLEN = 0.98  # of what it was


@rule("PIT715")
def validation_diverges(run: Run) -> Iterator[Finding]:
    """The validation loss rises while the training loss falls, or a metric falls far.

    From its lowest point on the model learns its training set by heart. The checkpoint from
    there is the best one; more data, augmentation or a shorter run make a better one.

    Bad:
        Run(
            "a",
            (
                Series("train/loss", tuple(range(40)), tuple(1 / (1 + n) for n in range(40))),
                Series("val/loss", tuple(range(40)), tuple(1 + abs(n - 9) / 9 for n in range(40))),
            ),
        )

    Good:
        Run(
            "a",
            (
                Series("train/loss", tuple(range(40)), tuple(1 / (1 + n) for n in range(40))),
                Series("val/loss", tuple(range(40)), tuple(1 + 1 / (1 + n) for n in range(40))),
            ),
        )
    """
    yield from _fallen_metrics(run)
    trained = {partner(each.tag): each for each in reversed(losses(run))}
    for series in run.series:
        train = trained.get(partner(series.tag))
        if not (is_checked(series.tag) and LOSS.search(series.tag) and train):
            continue
        values = series.values
        if len(values) < FEWEST or not all(isfinite(value) and value > 0 for value in values):
            continue
        place = min(range(len(values)), key=values.__getitem__)
        end = median(values[-max(2, len(values) // 5) :])
        if end < RISEN * values[place] or place > LATE * len(values):
            continue
        step = series.steps[place]
        then = finite(before(train, step, WINDOW))
        last = finite(train.values[-WINDOW:])
        if not then or not last or median(last) > FALLEN * median(then):
            continue
        yield Finding(
            f"{series.tag} is lowest ({values[place]:.3g}) at step {at(step)} and {end:.3g} at the "
            f"end, while {train.tag} falls from {median(then):.3g} to {median(last):.3g}.",
            item=series.tag,
            cure=f"keep the checkpoint of step {at(step)}; stop there, or regularise",
            curves=(drawn(series), drawn(train)),
            mark=step,
        )
        return


def _fallen_metrics(run: Run) -> Iterator[Finding]:
    """Metrics of which more is better, and which end far below what they were."""
    for series in run.series:
        values = series.values
        if not (is_checked(series.tag) and RISING.search(series.tag)) or len(values) < 2 * BLOCKS:
            continue
        if len(finite(values)) < len(values):
            continue
        size = len(values) // BLOCKS
        middles = [median(values[size * place : size * (place + 1)]) for place in range(BLOCKS)]
        best = max(middles)
        place = middles.index(best)
        lost, gained = best - max(middles[-2:]), best - middles[0]
        if place > LATE * BLOCKS or lost < max(
            WORSE * gained, FAR * _noise(series), 0.01 * abs(best)
        ):
            continue
        step = series.steps[size * place + size // 2]
        yield Finding(
            f"{series.tag} is about {best:.4g} at step {at(step)}, {middles[-1]:.4g} at the end.",
            item=series.tag,
            cure=f"keep the checkpoint of about step {at(step)}; look at what changed then",
            curves=(drawn(series),),
            mark=step,
        )
        return


def _noise(series: Series) -> float:
    """How far neighbours usually are from each other."""
    return spread([after - before for before, after in pairwise(series.values)])
