"""PIT122 split-leaks."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT122")
def split_leaks(dataset: Dataset) -> Iterator[Finding]:
    """The same clip or picture is in two splits.

    What is validated was trained on, so the score says how well the model remembers.

    Bad:
        Dataset(leaked=(Problem("clip", Examples(1, ("test/a = train/a",))),))

    Good:
        Dataset(leaked=())
    """
    for problem in dataset.leaked:
        yield Finding(
            f"The same {problem.what} is in two splits: {named(problem.files)}.",
            item="splits",
            cure="take it out of one of them",
            severity="error",
        )
