"""PIT120 picture-black."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT120")
def picture_black(dataset: Dataset) -> Iterator[Finding]:
    """Pictures are black, or tensors zero throughout, where others beside them are not.

    Leaders, fades, failed renders and zeros in the place of a missing file teach nothing. A loss
    that divides by the mean or the variance of such a picture turns NaN.

    Bad:
        Dataset(black=(Problem("all black", Examples(1, ("a.png",))),))

    Good:
        Dataset(black=())
    """
    for problem in dataset.black:
        yield Finding(
            f"{problem.what.capitalize()}: {named(problem.files)}.",
            item=problem.where or "pictures",
            cure="leave them out by name; look at what made them",
            severity="warning",
        )
