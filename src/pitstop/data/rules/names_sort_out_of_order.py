"""PIT117 names-sort-out-of-order."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import FIRST, Dataset
from pitstop.data.layout import main_files
from pitstop.data.wording import number


@rule("PIT117")
def names_sort_out_of_order(dataset: Dataset) -> Iterator[Finding]:
    """Frames are numbered without leading zeros: `frame_10` sorts before `frame_2`.

    `sorted(folder.glob("*.png"))` is what most dataset classes do. It gives these frames in an
    order that is not that of time.

    Bad:
        Dataset(
            "clips", (Place(Folder("a", (Files("picture", 9, numbers=Numbers(in_order=False)),))),)
        )

    Good:
        Dataset("clips", (Place(Folder("a", (Files("picture", 9, numbers=Numbers()),))),))
    """
    if dataset.layout not in {"clips", "triplets", "short sequences"}:
        return
    paths = [
        place.folder.path
        for place in dataset.places
        if (files := main_files(place.folder)) and files.numbers and not files.numbers.in_order
    ]
    if paths:
        yield Finding(
            f"Names do not sort by time in {number(len(paths), 'folder')}: "
            f"{', '.join(paths[:FIRST])}.",
            item="clips",
            cure="rename with leading zeros (frame_0002), or sort by the number",
        )
