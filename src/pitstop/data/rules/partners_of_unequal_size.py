"""PIT118 partners-of-unequal-size."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT118")
def partners_of_unequal_size(dataset: Dataset) -> Iterator[Finding]:
    """Pictures that belong together have sizes that do not fit.

    Most pairs of the dataset have one factor between their sizes; these have another. A crop at
    the same place then shows two different things, or training stops with an error hours later.

    Bad:
        Dataset(unequal=(Problem("unequal", Examples(1, ("a.png",)), "hq and lq"),))

    Good:
        Dataset(unequal=())
    """
    for problem in dataset.unequal:
        yield Finding(
            f"The sizes of {problem.where} do not fit as elsewhere: {named(problem.files)}.",
            item=problem.where,
            cure="make the smaller one anew, or leave the pair out",
            severity="error",
        )
