"""PIT106 split-name-differs-in-case."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset


@rule("PIT106")
def split_name_differs_in_case(dataset: Dataset) -> Iterator[Finding]:
    """A split's folder is not spelled as code spells it: `Train`, where code asks for `train`.

    On Linux these are two names. Code that looks for the other one finds no folder, and a dataset
    class that lists what is there goes on with no sample at all.

    Bad:
        Dataset(splits=("Train", "val"))

    Good:
        Dataset(splits=("train", "val"))
    """
    odd = [name for name in dataset.splits if name != name.lower()]
    if not odd:
        return
    both = [name for name in odd if name.lower() in dataset.splits]
    beside = f"; {both[0].lower()} is there as well" if both else ""
    asked = ", ".join(name.lower() for name in odd)
    yield Finding(
        f"On disk it is {', '.join(odd)}: code that asks for {asked} finds no folder{beside}.",
        item="splits",
        cure=f"give {', '.join(odd)} in the configuration, or rename the folders",
        severity="error" if both else "warning",
    )
