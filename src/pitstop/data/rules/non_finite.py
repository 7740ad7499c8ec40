"""PIT701 non-finite."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT701")
def non_finite(dataset: Dataset) -> Iterator[Finding]:
    """Precomputed tensors hold NaN or Inf.

    Bad:
        Dataset(non_finite=(Problem("NaN", Examples(1, ("train/a/spike_vox/00000003.npy",))),))

    Good:
        Dataset(non_finite=())
    """
    for problem in dataset.non_finite:
        yield Finding(
            f"{problem.what} inside: {named(problem.files)}.",
            item="tensors",
            cure="look for a division by zero in the script that made them, and make them anew",
            severity="error",
        )
