"""PIT701 non-finite."""

from collections.abc import Iterator
from math import isfinite, isnan

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.before import Moved, what_moved
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn, finite, first_bad
from pitstop.logs.tags import GRADIENT, LOSS, RATE, is_quality, rates, scales

ISOLATED = 0.1  # of the values: a scaler in half precision tries and skips as many


@rule("PIT701")
def non_finite(run: Run) -> Iterator[Finding]:
    """A number in the log is NaN or infinite, and often every one after it.

    Bad:
        Run("a", (Series("loss", tuple(range(9)), (1.0,) * 5 + (float("nan"),) * 4),))

    Good:
        Run("a", (Series("loss", tuple(range(9)), (1.0,) * 9),))
    """
    bad = [
        (series.steps[place], series)
        for series in run.series
        if (place := first_bad(series)) is not None and not _scaler_at_work(run, series)
    ]
    if not bad:
        return
    step = min(first for first, _ in bad)
    together = sorted((series for first, series in bad if first == step), key=_loss_first)
    series, moved = together[0], what_moved(run, step)
    yield Finding(
        f"{series.tag} is {_spelled(series)} from step {at(step)} of {at(run.last_step)}"
        f"{_others(together[1:])}{_end(series)}. {_before(moved)}",
        item=series.tag,
        cure=_cure(moved),
        severity="error" if any(_of_the_training(each) for each in together) else "warning",
        curves=(drawn(series), *((drawn(moved.series),) if moved else ())),
        mark=step,
    )


def _scaler_at_work(run: Run, series: Series) -> bool:
    """Overflows of gradients in half precision, which a scaler is there for."""
    if is_quality(series.tag) or not (GRADIENT.search(series.tag) and scales(run)):
        return False
    bad = sum(not isfinite(value) for value in series.values)
    return bad <= max(3, ISOLATED * len(series.values)) and isfinite(series.values[-1])


def _of_the_training(series: Series) -> bool:
    """A loss, a norm or a rate: a metric may be NaN where there was nothing to measure."""
    return any(kind.search(series.tag) for kind in (LOSS, GRADIENT, RATE))


def _loss_first(series: Series) -> tuple[bool, int, str]:
    return not LOSS.search(series.tag), len(series.tag), series.tag


def _spelled(series: Series) -> str:
    place = first_bad(series)
    assert place is not None
    return "NaN" if isnan(series.values[place]) else "infinite"


def _others(others: list[Series]) -> str:
    if not others:
        return ""
    named = ", ".join(each.tag for each in others[:3])
    return f", as {'is' if len(others) == 1 else 'are'} {named}{' ...' if len(others) > 3 else ''}"


def _end(series: Series) -> str:
    """Whether it stays so; how often it is so, where the log was not thinned."""
    place = first_bad(series) or 0
    bad = len(series.values) - len(finite(series.values))
    if bad == len(series.values) - place:
        return ", to the end"
    return f" ({bad} of {len(series.values)} values)" if series.logged <= len(series.values) else ""


def _before(moved: Moved | None) -> str:
    if moved is None:
        return "Nothing in the log rose before it."
    way = "rose" if moved.to > moved.usual else "fell"
    return f"Before it, {moved.series.tag} {way} from about {moved.usual:.3g} to {moved.to:.3g}."


def _cure(moved: Moved | None) -> str:
    if moved and GRADIENT.search(moved.series.tag):
        return "clip the gradient norm, or lower the learning rate; look at the batches before it"
    if moved and rates(Run("", (moved.series,))):
        return "the learning rate moved: warm it up more slowly, or lower its peak"
    return "run `pitstop profile` over that step: it names the operation; `pitstop data` the file"
