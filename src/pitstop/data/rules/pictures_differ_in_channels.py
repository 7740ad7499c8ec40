"""PIT125 pictures-differ-in-channels."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT125")
def pictures_differ_in_channels(dataset: Dataset) -> Iterator[Finding]:
    """A few pictures have other channels than the rest: grey, alpha, 16 bits, a palette.

    A batch cannot be stacked from them, and training ends hours after its start. Pillow's
    `convert("RGB")` makes most of them alike, but cuts 16 bits off at 255.

    Bad:
        Dataset(modes=(Problem("L instead of RGB", Examples(1, ("a.png",))),))

    Good:
        Dataset(modes=())
    """
    for problem in dataset.modes:
        yield Finding(
            f"{problem.what}: {named(problem.files)}.",
            item=problem.where or "pictures",
            cure="convert them when they are read, or once on disk; 16 bits by dividing by 256",
            severity="warning",
        )
