"""PIT114 full-frame-decoded-then-cropped."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.core.units import percent
from pitstop.data.dataset import Dataset

WASTEFUL = 6  # times the pixels of the crop: tiles with a margin to move in have four


@rule("PIT114")
def full_frame_decoded_then_cropped(dataset: Dataset) -> Iterator[Finding]:
    """Whole pictures are decoded for crops that are a small part of them.

    Bad:
        Dataset(roles=(Role("hq", size=(2040, 1356)),), crop=256)

    Good:
        Dataset(roles=(Role("hq", size=(480, 480)),), crop=256)
    """
    if dataset.crop is None:
        return
    for role in dataset.roles:
        width, height = role.size
        if role.kind != "picture" or width * height <= WASTEFUL * dataset.crop**2:
            continue
        share = dataset.crop**2 / (width * height)
        yield Finding(
            f"A crop of {dataset.crop} is {percent(share)} of a picture of {width}x{height}: the "
            "rest is decoded for nothing.",
            item=role.name or "pictures",
            cure="cut the pictures into tiles of about twice the crop, once, or read crops with "
            "pitstop.parts.fast_decode",
        )
