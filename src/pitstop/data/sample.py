"""Sample: which files are opened. A name's checksum decides: partners are opened together."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from pitstop.data.dataset import Place
from pitstop.data.layout import main_files
from pitstop.data.look import Job
from pitstop.data.names import checksum, stem_of
from pitstop.data.walk import names_of

WHOLE = 16  # files of a folder that is opened as a whole: a triplet is one sample
STEPS = 1 << 32


def chosen(root: Path, places: Sequence[Place], wanted: int) -> Iterator[Job]:
    """About ``wanted`` of all files, spread evenly; 0 means all of them."""
    number = sum(place.count for place in places)
    limit = STEPS if wanted in {0, number} or wanted > number else STEPS * wanted // number
    for index, place in enumerate(places):
        files = main_files(place.folder)
        if files is None:
            continue
        folder = place.folder.path
        whole = checksum(folder) % STEPS < limit
        above = f"{place.split}/{place.item}"
        for name in names_of(root, folder, files.kind):
            together = files.count <= WHOLE and not place.role
            key = f"{above}/{stem_of(PurePosixPath(name).stem)}"
            if whole if together else checksum(key) % STEPS < limit:
                yield Job(str(PurePosixPath(folder) / name), files.kind, index)
