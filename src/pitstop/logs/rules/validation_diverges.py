"""PIT715 validation-diverges."""

from collections.abc import Iterator
from math import isfinite
from statistics import median

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run
from pitstop.logs.numbers import at, before, drawn, finite
from pitstop.logs.tags import LOSS, is_checked, losses, partner

FEWEST = 4  # validations; fewer are no curve
RISEN = 1.1  # times its lowest value
LATE = 0.8  # of the run: a minimum later than this may be noise
WINDOW = 10  # training losses around a step
FALLEN = 0.98  # of what it was


@rule("PIT715")
def validation_diverges(run: Run) -> Iterator[Finding]:
    """The validation loss rises while the training loss goes on falling.

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
