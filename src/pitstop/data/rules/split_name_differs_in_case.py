"""PIT106 split-name-differs-in-case."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset, Examples
from pitstop.data.walk import more
from pitstop.data.wording import named


@rule("PIT106")
def split_name_differs_in_case(dataset: Dataset) -> Iterator[Finding]:
    """A folder is not spelled as code spells it: `Train`, where code asks for `train`.

    On Linux these are two names. Code that looks for the other one finds no folder, and a dataset
    class that lists what is there goes on with no sample at all. So it is with `Blur` in some
    clips and `blur` in others.

    Bad:
        Dataset(splits=("Train", "val"))

    Good:
        Dataset(splits=("train", "val"))
    """
    yield from _roles(dataset)
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


def _roles(dataset: Dataset) -> Iterator[Finding]:
    """Folders that are spelled otherwise than those of the same role."""
    found: dict[str, Examples] = {}
    for place in dataset.places:
        role = place.role.partition(" ")[0]
        parts = place.folder.path.split("/")
        odd = [part for part in parts if part.lower() == role.lower()]
        if role and odd and role not in odd:
            found[role] = more(found.get(role, Examples()), place.folder.path)
    for role, folders in found.items():
        yield Finding(
            f"Folders of one role are spelled in two ways: {role}, and {named(folders)}.",
            item=role,
            cure=f"rename these to {role}: on Linux code finds one spelling only",
            severity="error",
        )
