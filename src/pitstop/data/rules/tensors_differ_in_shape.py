"""PIT123 tensors-differ-in-shape."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named


@rule("PIT123")
def tensors_differ_in_shape(dataset: Dataset) -> Iterator[Finding]:
    """A few precomputed tensors have another shape or type than all others.

    They come from an earlier version of the script that made them, or from a file of another
    size. A batch cannot be stacked from them; a float64 among float32 doubles a batch's size.

    Bad:
        Dataset(unlike=(Problem("float64 (5, 8) instead of float32 (5, 8)", Examples(1, ("a",))),))

    Good:
        Dataset(unlike=())
    """
    for problem in dataset.unlike:
        yield Finding(
            f"{problem.what}: {named(problem.files)}.",
            item=problem.where or "tensors",
            cure="make them anew with the script that made the others",
            severity="error",
        )
