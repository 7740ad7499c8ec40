"""PIT116 frames-missing-in-sequence."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import FIRST, Dataset
from pitstop.data.layout import main_files
from pitstop.data.wording import number


@rule("PIT116")
def frames_missing_in_sequence(dataset: Dataset) -> Iterator[Finding]:
    """Frames are missing in the middle of a sequence.

    Neighbours in the list are then no neighbours in time: motion jumps, and a model for video or
    interpolation learns the jump.

    Bad:
        Dataset(
            "clips", (Place(Folder("a", (Files("picture", 9, numbers=Numbers(1, ("0004",))),))),)
        )

    Good:
        Dataset("clips", (Place(Folder("a", (Files("picture", 9, numbers=Numbers()),))),))
    """
    if dataset.layout != "clips":
        return
    clips: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for place in dataset.places:
        files = main_files(place.folder)
        if not files or not files.numbers:
            continue
        paths = [f"{place.folder.path}/{name}" for name in files.numbers.first_missing]
        fewest, _ = clips.setdefault((place.split, place.item), (files.numbers.missing, paths))
        if files.numbers.missing < fewest:  # a role that has them all: the others lack partners
            clips[place.split, place.item] = (files.numbers.missing, paths)
    broken = [clip for clip in clips.values() if clip[0]]
    missing = sum(lost for lost, _ in broken)
    first = [path for _, paths in broken for path in paths]
    if missing:
        yield Finding(
            f"{number(missing, 'frame')} missing in the middle of {number(len(broken), 'clip')}: "
            f"{', '.join(first[:FIRST])}{'' if missing <= FIRST else ' ...'}.",
            item="clips",
            cure="restore them, or split the clip in two where it breaks off",
            severity="error",
        )
