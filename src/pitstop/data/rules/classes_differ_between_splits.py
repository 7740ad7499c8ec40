"""PIT124 classes-differ-between-splits."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import FIRST, Dataset
from pitstop.data.wording import number


@rule("PIT124")
def classes_differ_between_splits(dataset: Dataset) -> Iterator[Finding]:
    """A class has a folder in one split and none in another.

    Folders become labels by their position in the sorted list. Where one is missing, every class
    behind it has another number, and the score says nothing.

    Bad:
        Dataset(
            "classes",
            (
                Place(Folder("train/cat", (Files("picture", 9),)), "train", "cat"),
                Place(Folder("train/dog", (Files("picture", 9),)), "train", "dog"),
                Place(Folder("val/dog", (Files("picture", 9),)), "val", "dog"),
            ),
        )

    Good:
        Dataset(
            "classes",
            (
                Place(Folder("train/dog", (Files("picture", 9),)), "train", "dog"),
                Place(Folder("val/dog", (Files("picture", 9),)), "val", "dog"),
            ),
        )
    """
    if dataset.layout != "classes":
        return
    by_split: dict[str, set[str]] = {}
    for place in dataset.places:
        if place.split and place.item:
            by_split.setdefault(place.split, set()).add(place.item)
    everything = set().union(*by_split.values())
    for split, classes in by_split.items():
        missing = sorted(everything - classes)
        others = (by_split[each] for each in by_split if each != split)
        shared = classes & set().union(*others)
        if 0 < len(missing) <= len(shared):  # else these are not the classes of one dataset
            yield Finding(
                f"{split} has no folder for {number(len(missing), 'class', 'classes')} that "
                f"another split has: {', '.join(missing[:FIRST])}.",
                item=split,
                cure="make the folder, though it be empty, or take the labels from a list",
                severity="error",
            )
