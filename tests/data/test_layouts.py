"""Layouts of public datasets, told by names alone."""

import pytest

from pitstop.data.layout import arrange
from pitstop.data.walk import Walk


def names(pattern, *ranges):
    """Every combination: ``{}`` in the pattern is filled from each range in turn."""
    paths = [""]
    for part in pattern.split("/"):
        if "{}" not in part:
            paths = [f"{path}/{part}" for path in paths]
            continue
        values, *ranges = ranges
        paths = [f"{path}/{part.replace('{}', str(value))}" for path in paths for value in values]
    return [path.lstrip("/") for path in paths]


def padded(first, last, width=8):
    return [f"{number:0{width}d}" for number in range(first, last)]


SPLITS = ("train", "test")
LAYOUTS = {
    "GoPro": (
        names("{}/{}/{}/{}.png", SPLITS, ["GOPR0372_07_00", "GOPR0374_11_00"], ["blur", "sharp"],
              padded(47, 53, 6)),
        "clips", {"blur", "sharp"}, {"train", "test"},
    ),
    "any role names": (
        names("{}/{}/{}/{}.png", SPLITS, ["one", "two", "three"], ["foo", "bar"], padded(0, 6)),
        "clips", {"foo", "bar"}, {"train", "test"},
    ),
    "REDS": (
        names("train_{}/{}/{}.png", ["sharp", "blur"], padded(0, 4, 3), padded(0, 9)),
        "clips", {"sharp", "blur"}, {"train"},
    ),
    "Vimeo": (
        names("sequences/{}/{}/im{}.png", padded(1, 4, 5), padded(1, 5, 4), range(1, 4)),
        "triplets", set(), set(),
    ),
    "DIV2K": (
        names("DIV2K_train_HR/{}.png", padded(1, 9, 4))
        + names("DIV2K_train_LR/{}x4.png", padded(1, 9, 4)),
        "pairs", {"DIV2K_HR", "DIV2K_LR"}, {"train"},
    ),
    "DIV2K with its scales": (
        names("DIV2K_train_HR/{}.png", padded(1, 9, 4))
        + names("DIV2K_train_LR_bicubic/X{}/{}x2.png", (2, 4), padded(1, 9, 4)),
        "pairs", {"DIV2K_HR", "DIV2K_LR_bicubic X2", "DIV2K_LR_bicubic X4"}, {"train"},
    ),
    "one clip": (
        names("Train/GOPR0372_07_00/{}/{}.png", ["blur", "sharp", "spike_vox"], padded(0, 4)),
        "clips", {"blur", "sharp", "spike_vox"}, {"Train"},
    ),
    "pairs": (names("{}/{}.png", ["LQ", "GT"], ["a", "b", "c"]), "pairs", {"LQ", "GT"}, set()),
    "ImageNet": (
        names("{}/{}/{}_x.JPEG", ["train", "val"], ["n01440764", "n01443537"],
              ["n0_10026", "n0_12", "n0_99"]),
        "classes", set(), {"train", "val"},
    ),
    "two classes": (
        names("{}/{}/{}.jpg", ["train", "val"], ["cat", "dog"], padded(0, 9)),
        "classes", set(), {"train", "val"},
    ),
    "domains with classes": (
        names("{}/dog/{}_photo.jpg", ["art", "sketch", "cartoon"], ["k1x", "fy", "z3w"])
        + names("{}/elephant/{}_photo.jpg", ["art", "sketch", "cartoon"], ["b1q", "r3e"]),
        "classes", set(), set(),
    ),
    "clips without roles": (
        names("{}/{}/{}.png", SPLITS, ["bear", "camel", "dance"], padded(0, 9)),
        "classes", set(), {"train", "test"},  # the same names in both: nobody can tell
    ),
    "DAVIS": (
        names("{}/{}/{}.jpg", ["train"], ["bear", "camel", "dance"], padded(0, 9)),
        "clips", set(), {"train"},
    ),
    "DAVIS, whole": (
        names("{}/480p/{}/{}.jpg", ["JPEGImages", "Annotations"], ["bear", "camel", "dance"],
              padded(0, 9)),
        "clips", {"JPEGImages", "Annotations"}, set(),
    ),
    "REDS as it is unpacked": (
        names("train/train_{}/{}/{}.png", ["sharp", "blur"], padded(0, 4, 3), padded(0, 9))
        + names("val/val_{}/{}/{}.png", ["sharp", "blur"], padded(0, 2, 3), padded(0, 9)),
        "clips", {"sharp", "blur"}, {"train", "val"},
    ),
    "a class named for a split": (
        names("train/{}/{}_x.jpg", ["train_station", "airport"], ["k1x", "fy"])
        + names("val/{}/{}_x.jpg", ["train_station", "airport"], ["m1x", "by"]),
        "classes", set(), {"train", "val"},
    ),
    "captions": (
        names("{}.jpg", ["a", "b"]) + names("{}.txt", ["a", "b"]), "captions", set(), set(),
    ),
    "videos": (names("{}/v_{}.mp4", ["run", "jump"], range(4)), "videos", set(), set()),
    "pictures": (names("{}.png", ["a", "b", "zebra"]), "pictures", set(), set()),
    "CycleGAN": (
        names("{}/{}_x.jpg", ["trainA", "trainB", "testA", "testB"], ["n2", "n5"]),
        "unpaired", {"A", "B"}, {"train", "test"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("paths", "layout", "roles", "splits"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_is_told_by_names(tmp_path, paths, layout, roles, splits):
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    arranged = arrange(tuple(Walk(tmp_path).folders()))
    assert arranged.layout == layout
    assert {place.role for place in arranged.places if place.role} == roles
    assert set(arranged.splits) == splits
    assert sum(place.count for place in arranged.places) == len(
        [path for path in paths if not path.endswith(".txt")]
    )
