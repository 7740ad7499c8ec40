"""PIT713 learning-rate-not-warmed-up."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn, finite, spread
from pitstop.logs.tags import losses, rates

EARLY = 0.1  # of the run
FEWEST = 5  # entries at least
LONG = 30  # entries of a run in which a beginning is a part
FAR = 6.0  # times the usual noise of the loss: no chance
RISE = 3.0  # times the first loss; NaN counts as well


@rule("PIT713")
def learning_rate_not_warmed_up(run: Run) -> Iterator[Finding]:
    """The learning rate begins at its peak, and the loss rises at once.

    The first gradients of a new model are large, and Adam has no variance yet to divide them by.
    A warm-up of some hundred steps costs nothing and keeps the weights where they can learn.

    Bad:
        Run(
            "a",
            (
                Series("lr", tuple(range(60)), (0.1,) * 60),
                Series("loss", tuple(range(60)), (1.0, 2.0, 9.0) + (3.0,) * 57),
            ),
        )

    Good:
        Run(
            "a",
            (
                Series("lr", tuple(range(60)), (0.1,) * 60),
                Series("loss", tuple(range(60)), (1.0, 0.9, 0.8) + (0.7,) * 57),
            ),
        )
    """
    peaked = [each for each in rates(run) if _begins_at_peak(each)]
    for series in losses(run):
        values = series.values[: max(FEWEST, int(EARLY * len(series.values)))]
        if not peaked or len(series.values) < LONG or not values[0] > 0:
            continue
        known = finite(series.values)
        later = known[len(known) // 2 :]
        noise = FAR * spread(later) if later else 0.0
        highest = max(RISE * values[0], values[0] + noise)
        place = next((n for n, value in enumerate(values) if not value < highest), None)
        if place is None:
            continue
        yield Finding(
            f"{peaked[0].tag} begins at its peak ({peaked[0].values[0]:g}), and {series.tag} rises "
            f"from {values[0]:.3g} to {values[place]:.3g} by step {at(series.steps[place])}.",
            item=peaked[0].tag,
            cure="warm the learning rate up over the first few hundred steps",
            confidence="suspected",
            curves=(drawn(series), drawn(peaked[0])),
            mark=series.steps[place],
        )
        return


def _begins_at_peak(series: Series) -> bool:
    values = finite(series.values)
    return len(values) > 1 and values[0] > 0 and values[0] >= max(values)
