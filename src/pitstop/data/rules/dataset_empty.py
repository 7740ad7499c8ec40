"""PIT105 dataset-empty."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset, Place
from pitstop.data.wording import number


@rule("PIT105")
def dataset_empty(dataset: Dataset) -> Iterator[Finding]:
    """A dataset, or one of its splits, holds no sample.

    Bad:
        Dataset(splits=("Train",), places=(Place(Folder("Train/a/blur"), "Train", "a", "blur"),))

    Good:
        Dataset(
            splits=("Train",),
            places=(Place(Folder("Train/a", (Files("picture", 9),)), "Train", "a"),),
        )
    """
    if not any(_holds(place) for place in dataset.places) and not dataset.stores:
        yield Finding(
            "No picture, tensor or video is here.",
            cure="check the path; suffixes that are read: png, jpg, npy, pt, safetensors, mp4 ...",
            severity="error",
        )
        return
    for split in dataset.splits:
        places = [place for place in dataset.places if place.split == split]
        if not any(_holds(place) for place in places):
            yield Finding(
                f"The split {split} holds no sample in {number(len(places), 'folder')}.",
                item=split,
                cure="fill it, or name the split that has the files",
                severity="error",
            )


def _holds(place: Place) -> bool:
    """Files that a model reads, or others that may be such."""
    return place.count > 0 or place.folder.others > 0
