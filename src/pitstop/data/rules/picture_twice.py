"""PIT121 picture-twice."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT121")
def picture_twice(dataset: Dataset) -> Iterator[Finding]:
    """Pictures have the same bytes as others.

    A frame that stands still says that there is no motion; a pair whose halves are one picture
    teaches a restoration model to do nothing.

    Bad:
        Dataset(same=(Problem("partners are the same picture", Examples(1, ("a = b",))),))

    Good:
        Dataset(same=())
    """
    for problem in dataset.same:
        yield Finding(
            f"{problem.what[0].upper()}{problem.what[1:]}: {named(problem.files)}.",
            item="pictures",
            cure="keep one of them; look at what copied it",
            severity="warning",
        )
