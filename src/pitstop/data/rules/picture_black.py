"""PIT120 picture-black."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT120")
def picture_black(dataset: Dataset) -> Iterator[Finding]:
    """Pictures are black throughout, where others beside them are not.

    Leaders, fades and failed renders teach nothing. A loss that divides by the mean or the
    variance of such a picture turns NaN.

    Bad:
        Dataset(black=(Problem("black", Examples(1, ("a.png",))),))

    Good:
        Dataset(black=())
    """
    for problem in dataset.black:
        yield Finding(
            f"All black: {named(problem.files)}.",
            item=problem.where or "pictures",
            cure="leave them out by name; look at what made them",
            severity="warning",
        )
