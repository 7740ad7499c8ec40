"""PIT703 gradient-explodes."""

from collections.abc import Iterator
from math import isfinite
from statistics import median

from pitstop.core.explosion import ENOUGH, EXPLOSION, HIGHEST
from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn, finite
from pitstop.logs.tags import GRADIENT, gradient_norms, losses

WINDOW = 200  # values that say what is usual
GROWN = 10.0  # times, from the second tenth of a run to its last quarter, and rising throughout
LONG = 40  # values that can show a growth


@rule("PIT703")
def gradient_explodes(run: Run) -> Iterator[Finding]:
    """The gradient norm or the loss jumps to a hundred times what it was, or only grows.

    Bad:
        Run("a", (Series("grad_norm", tuple(range(30)), (1.0,) * 29 + (900.0,)),))

    Good:
        Run("a", (Series("grad_norm", tuple(range(30)), (1.0,) * 30),))
    """
    for series in (*gradient_norms(run), *losses(run)):
        found = _jump(series) or (_growth(series) if GRADIENT.search(series.tag) else None)
        if found is None:
            continue
        step, words = found
        yield Finding(
            f"{series.tag} {words}.",
            item=series.tag,
            cure="clip the gradient norm; look at the batches there, and at the learning rate",
            curves=(drawn(series),),
            mark=step,
        )
        return


def _jump(series: Series) -> tuple[float, str] | None:
    """The first step that exceeds all before it by far."""
    known: list[float] = []
    highest = 0.0
    for step, value in zip(series.steps, map(abs, series.values), strict=True):
        if not isfinite(value):
            continue
        if len(known) >= ENOUGH and value > HIGHEST * highest:
            usual = median(known[-WINDOW:])
            if usual and value > EXPLOSION * usual:
                return step, f"jumps from about {usual:.3g} to {value:.3g} at step {at(step)}"
        known.append(value)
        highest = max(highest, value)
    return None


def _growth(series: Series) -> tuple[float, str] | None:
    """A norm that diverges slowly: each quarter above the one before."""
    values = finite(series.values)
    values = values[len(values) // 10 :]
    if len(values) < LONG:
        return None
    quarter = len(values) // 4
    middles = [median(values[quarter * part : quarter * (part + 1)]) for part in range(4)]
    if middles != sorted(middles) or middles[3] < GROWN * middles[0] or not middles[0]:
        return None
    step = series.steps[len(series.steps) - len(values) + quarter]
    return step, f"grows without end, from about {middles[0]:.3g} to {middles[3]:.3g}"
