"""PIT711 loss-spikes."""

from collections.abc import Iterator
from math import inf, isfinite, log
from statistics import median

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn, spread
from pitstop.logs.tags import losses

WINDOW = 50  # values before it that say what is usual
FAR = 6.0  # times their usual distance from the median, in logarithms
ABOVE = 3.0  # times the highest of them: a noisy loss has wide tails
BACK = 10  # values after it, whose median is usual again


@rule("PIT711")
def loss_spikes(run: Run) -> Iterator[Finding]:
    """The loss jumps far above everything around it, and comes back.

    A broken sample, a rate that is too high, or an overflow that was skipped. Runs that spike
    often end in one that does not come back.

    Bad:
        Run("a", (Series("loss", tuple(range(90)), (1.0, 1.1) * 30 + (40.0,) + (1.0,) * 29),))

    Good:
        Run("a", (Series("loss", tuple(range(90)), (1.0, 1.1) * 45),))
    """
    for series in losses(run):
        spikes = _spikes(series)
        if not spikes:
            continue
        steps = ", ".join(at(series.steps[place]) for place in spikes[:3])
        highest = max(series.values[place] for place in spikes)
        yield Finding(
            f"{series.tag} spikes {len(spikes)} times, to {highest:.3g} at most: at step {steps}"
            f"{' ...' if len(spikes) > 3 else ''}.",
            item=series.tag,
            cure="look at the batches of these steps; clip the gradient norm",
            curves=(drawn(series),),
            mark=series.steps[spikes[0]],
        )
        return


def _spikes(series: Series) -> list[int]:
    """Judged by ratios: a noisy loss has a long tail above, and a short one below."""
    values, found = series.values, list[int]()
    for place in range(WINDOW, len(values) - 1):
        value = values[place]
        usual = [each for each in values[place - WINDOW : place] if 0 < each < inf]
        if not isfinite(value) or len(usual) < WINDOW // 2 or value < ABOVE * max(usual):
            continue
        sizes = [log(each) for each in usual]
        after = [each for each in values[place + 1 : place + 1 + BACK] if isfinite(each)]
        far = log(value) > median(sizes) + FAR * spread(sizes)
        if far and after and median(after) < ABOVE * max(usual):
            found.append(place)
    return found
