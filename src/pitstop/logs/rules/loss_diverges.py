"""PIT717 loss-diverges."""

import re
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn, finite, spread
from pitstop.logs.tags import losses

BLOCKS = 20  # of a run; their medians are not moved by spikes
FEWEST = 80  # entries: four for each block
RISEN = 2.0  # times the lowest block
FAR = 6.0  # times the usual noise of the loss: no chance
LASTING = 3  # blocks at the end, all of them above
MOSTLY = 0.6  # of the steps between the blocks, from the lowest one on, go up
MAIN = re.compile(
    r"(?i)^((train|training|total|sum|overall|mean|avg)[/_. -]?)*loss([/_](step|epoch|total|sum))?$"
)
RIVAL = re.compile(  # losses that work against each other rise in a run that goes well
    r"(?i)(^|[/_.-])(d|g|gen|disc|adv|gan|generator|discriminator|critic|actor|policy|value|reward|kl)"
    r"($|[/_.-])"
)


@rule("PIT717")
def loss_diverges(run: Run) -> Iterator[Finding]:
    """The training loss falls, then rises for good.

    The rate is too high for where the model has come to, or the data changed. What is saved at
    the end is worse than what was there before; no NaN says so.

    Bad:
        Run("a", (Series("loss", tuple(range(99)), tuple(1 + abs(n - 45) for n in range(99))),))

    Good:
        Run("a", (Series("loss", tuple(range(99)), tuple(1 + 9 / (1 + n) for n in range(99))),))
    """
    if any(RIVAL.search(series.tag) for series in run.series):
        return
    for series in losses(run):
        lowest = _lowest(series) if MAIN.match(series.tag) else None
        if lowest is None:
            continue
        step, low, end = lowest
        yield Finding(
            f"{series.tag} is about {low:.3g} at step {at(step)}, and rises to about {end:.3g} at "
            "the end.",
            item=series.tag,
            cure=f"go back to the checkpoint of step {at(step)}, with a lower learning rate",
            severity="error",
            curves=(drawn(series),),
            mark=step,
        )
        return


def _lowest(series: Series) -> tuple[float, float, float] | None:
    """The step and the value of the lowest block, and the value of the last one."""
    values = finite(series.values)
    if len(values) < max(FEWEST, len(series.values)) or min(values) <= 0:
        return None
    size = len(values) // BLOCKS
    blocks = [values[size * place : size * (place + 1)] for place in range(BLOCKS)]
    middles = [median(block) for block in blocks]
    low = min(middles)
    place = middles.index(low)
    above = max(RISEN * low, low + FAR * spread(blocks[place]))
    rises = [after > before for before, after in pairwise(middles[place:])]
    lasting = all(middle > above for middle in middles[-LASTING:])
    if not lasting or sum(rises) < MOSTLY * len(rises):
        return None
    return series.steps[size * place + size // 2], low, middles[-1]
