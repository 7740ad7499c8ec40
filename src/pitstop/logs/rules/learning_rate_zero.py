"""PIT712 learning-rate-zero."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run
from pitstop.logs.numbers import at, drawn
from pitstop.logs.tags import rates

FEWEST = 3  # entries; a warm-up may begin with one
SHARE = 0.05  # of the run


@rule("PIT712")
def learning_rate_zero(run: Run) -> Iterator[Finding]:
    """The learning rate is zero where the model should learn.

    A warm-up that begins at zero and is stepped once per epoch, a schedule made for no steps, a
    group of parameters without a rate: nothing is learned meanwhile.

    Bad:
        Run("a", (Series("lr", tuple(range(40)), (0.0,) * 40),))

    Good:
        Run("a", (Series("lr", tuple(range(40)), (0.0,) + (0.1,) * 39),))
    """
    for series in rates(run):
        values = series.values
        leading = next((place for place, value in enumerate(values) if value != 0), len(values))
        if leading < max(FEWEST, SHARE * len(values)):
            continue
        always = leading == len(values)
        until = "throughout" if always else f"until step {at(series.steps[leading])}"
        yield Finding(
            f"{series.tag} is 0 {until}.",
            item=series.tag,
            cure="begin the warm-up above zero, and step the scheduler in every optimizer step",
            severity="error" if always else "warning",
            curves=(drawn(series),),
            mark=series.steps[leading - 1],
        )
        return
