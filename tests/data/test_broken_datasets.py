"""Whole datasets give no finding; broken in one way each, they give one that says how."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file

from data.builders import classes, clips, pairs, picture
from pitstop.cli.main import run
from pitstop.data.examine import examine
from pitstop.data.needs import samples
from pitstop.data.read import Plan, read_dataset

WINDOW = Plan(window=5)


@pytest.fixture(scope="module")
def whole_clips(tmp_path_factory):
    return clips(tmp_path_factory.mktemp("whole"))


def found(root, plan=WINDOW):
    return {finding.code: finding for finding in examine(read_dataset(root, plan)).findings}


@pytest.mark.parametrize("build", [clips, classes, pairs])
def test_a_whole_dataset_has_nothing_to_mend(tmp_path, build):
    assert found(build(tmp_path)) == {}


def breaks(code, words):
    def mark(function):
        CASES.append(pytest.param(function, code, words, id=function.__name__))
        return function

    return mark


CASES = []
CLIP = "train/GOPR_train_1"


@breaks("PIT106", "Train")
def split_in_other_case(root):
    (root / "train").rename(root / "Train")


@breaks("PIT105", "val")
def split_without_files(root):
    for path in (root / "val").rglob("*.*"):
        path.unlink()


@breaks("PIT112", f"{CLIP}/spike_vox")
def empty_role(root):
    for path in (root / CLIP / "spike_vox").iterdir():
        path.unlink()


@breaks("PIT112", f"{CLIP}/sharp")
def missing_role(root):
    shutil.rmtree(root / CLIP / "sharp")


@breaks("PIT112", f"{CLIP}/spike_vox/00000007")
def missing_partner(root):
    (root / CLIP / "spike_vox/00000007.npy").unlink()


@breaks("PIT116", f"{CLIP}/blur/00000004")
def frame_missing_in_the_middle(root):
    for path in (root / CLIP).rglob("00000004.*"):
        path.unlink()


@breaks("PIT117", f"{CLIP}/blur")
def numbers_without_zeros(root):
    for path in list((root / CLIP).rglob("0*.*")):
        path.rename(path.with_name(f"{int(path.stem) + 5}{path.suffix}"))


@breaks("PIT107", "4 frames")
def short_clips(root):
    for path in list(root.rglob("*.*")):
        if path.is_file() and int(path.stem) > 3:
            path.unlink()


@breaks("PIT118", "31x24")
def pair_of_unequal_size(root):
    picture(root / CLIP / "sharp/00000002.png", size=(31, 24))


@breaks("PIT119", "Empty")
def zero_length(root):
    (root / CLIP / "blur/00000003.png").write_bytes(b"")


@breaks("PIT119", "Cut short")
def truncated_picture(root):
    path = root / CLIP / "blur/00000003.png"
    path.write_bytes(path.read_bytes()[:-300])


@breaks("PIT119", "Not a picture")
def error_page_for_a_picture(root):
    (root / CLIP / "blur/00000003.png").write_text("<html>404 not found</html>")


@breaks("PIT119", "git lfs pull")
def pointer_for_a_picture(root):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    (root / CLIP / "blur/00000003.png").write_text(pointer)


@breaks("PIT119", "Cut short")
def truncated_tensor(root):
    path = root / CLIP / "spike_vox/00000003.npy"
    path.write_bytes(path.read_bytes()[:-300])


@breaks("PIT120", "00000002.png")
def black_picture(root):
    Image.new("RGB", (32, 24)).save(root / CLIP / "blur/00000002.png")


@breaks("PIT121", "twice")
def frame_that_stands_still(root):
    shutil.copy(root / CLIP / "blur/00000002.png", root / CLIP / "blur/00000003.png")


@breaks("PIT121", "Partners are the same")
def pair_with_one_picture(root):
    shutil.copy(root / CLIP / "blur/00000002.png", root / CLIP / "sharp/00000002.png")


@breaks("PIT122", "val/GOPR_val_0")
def clip_in_two_splits(root):
    shutil.rmtree(root / "val/GOPR_val_0")
    shutil.copytree(root / "train/GOPR_train_0", root / "val/GOPR_val_0")


@breaks("PIT123", "float32 (4, 24, 32)")
def tensor_of_another_shape(root):
    np.save(root / CLIP / "spike_vox/00000003.npy", np.ones((4, 24, 32), np.float32))


@breaks("PIT123", "float64")
def tensor_of_another_type(root):
    np.save(root / CLIP / "spike_vox/00000003.npy", np.ones((5, 24, 32)))


@breaks("PIT701", "NaN")
def tensor_with_nan(root):
    bad = np.zeros((5, 24, 32), np.float32)
    bad[2, 3, 4] = np.nan
    np.save(root / CLIP / "spike_vox/00000003.npy", bad)


@breaks("PIT701", "Inf")
def tensor_with_infinity(root):
    bad = np.zeros((5, 24, 32), np.float32)
    bad[0, 0, 0] = -np.inf
    np.save(root / CLIP / "spike_vox/00000003.npy", bad)


@pytest.mark.parametrize(("damage", "code", "words"), CASES)
def test_one_defect_is_found_and_named(tmp_path, whole_clips, damage, code, words):
    shutil.copytree(whole_clips, tmp_path, dirs_exist_ok=True)
    damage(tmp_path)
    findings = found(tmp_path)
    assert set(findings) == {code}
    assert words in findings[code].message
    assert findings[code].cure


def test_the_reports_own_layout(tmp_path):
    """`Train` for `train`, nothing in spike_vox, four frames where five are needed."""
    clips(tmp_path, splits=("Train",), frames=4)
    for path in tmp_path.glob("Train/*/spike_vox/*"):
        path.unlink()
    report = examine(read_dataset(tmp_path, Plan(window=5)))
    findings = {finding.code: finding for finding in report.findings}
    assert set(findings) == {"PIT106", "PIT107", "PIT112"}
    assert findings["PIT112"].severity == findings["PIT107"].severity == "error"
    assert "3 of 3 clips" in findings["PIT107"].message
    assert "spike_vox" in findings["PIT112"].message


def test_a_folder_without_data(tmp_path):
    (tmp_path / "train").mkdir()
    assert found(tmp_path)["PIT105"].severity == "error"


def test_archives_are_not_opened_and_no_empty_dataset(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train/shard-000.tar").write_bytes(b"x")
    report = examine(read_dataset(tmp_path))
    assert report.findings == ()
    assert "1 file of other kinds" in report.notes[0]


def test_a_class_missing_in_one_split(tmp_path):
    shutil.rmtree(classes(tmp_path) / "val/dog")
    findings = found(tmp_path)
    assert set(findings) == {"PIT124"}
    assert "dog" in findings["PIT124"].message


def test_a_picture_of_a_class_in_two_splits(tmp_path):
    classes(tmp_path)
    shutil.copy(tmp_path / "train/cat/cat_ta.jpg", tmp_path / "val/cat/other.jpg")
    assert set(found(tmp_path)) == {"PIT122"}


def test_a_pair_whose_target_is_missing_and_one_of_another_factor(tmp_path):
    pairs(tmp_path)
    (tmp_path / "HQ/pac.png").unlink()
    picture(tmp_path / "LQ/paa.png", size=(8, 6))
    findings = found(tmp_path)
    assert set(findings) == {"PIT112", "PIT118"}
    assert "HQ/pac" in findings["PIT112"].message
    assert "LQ/paa.png (8x6)" in findings["PIT118"].message


def test_a_picture_without_its_caption(tmp_path):
    for name in "abcdef":
        picture(tmp_path / f"{name}.jpg")
        (tmp_path / f"{name}.txt").write_text("a cat")
    assert found(tmp_path) == {}
    (tmp_path / "c.txt").unlink()
    assert "c.txt" in found(tmp_path)["PIT112"].message


def test_crops_of_large_pictures(tmp_path):
    picture(tmp_path / "a.png", size=(640, 480))
    picture(tmp_path / "b.png", size=(640, 480))
    assert set(found(tmp_path, Plan(crop=64))) == {"PIT114"}
    assert found(tmp_path, Plan(crop=400)) == {}


class Nasty:
    def __reduce__(self):
        return (Path.touch, (Path("was-here"),))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: torch.save({"vox": torch.full((5, 4), float("nan"))}, path),
        lambda path: torch.save(torch.full((5, 4), float("nan"), dtype=torch.bfloat16), path),
        lambda path: torch.save({"x": [torch.zeros(2), (torch.tensor([torch.inf]),)]}, path),
        lambda path: save_file({"a": np.full(3, np.nan, "f2")}, path.with_suffix(".safetensors")),
        lambda path: np.savez(path.with_suffix(".npz"), a=np.full(3, np.nan)),
    ],
)  # fmt: skip
def test_numbers_that_are_not_finite_in_every_format(tmp_path, write):
    write(tmp_path / "a.pt")
    assert set(found(tmp_path)) == {"PIT701"}


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: torch.save({"x": Nasty()}, path), "torch.load refuses"),
        (
            lambda path: torch.save(torch.zeros(9), path, _use_new_zipfile_serialization=False),
            "old",
        ),
        (lambda path: np.save(path.with_suffix(".npy"), np.array([Nasty()])), "Python objects"),
        (lambda path: path.write_bytes(b"PK\x03\x04 and no more"), "Cut short"),
        (lambda path: path.write_bytes(b"hello"), "Not a torch file"),
    ],
)
def test_files_that_hold_code_are_told_and_never_run(tmp_path, monkeypatch, write, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.pt")
    findings = found(tmp_path)
    assert set(findings) == {"PIT119"}
    assert words in findings["PIT119"].message
    assert not (tmp_path / "was-here").exists()


def test_names_that_repeat_the_split_or_differ_in_case(tmp_path):
    for split in ("train", "val"):
        for role in ("blur", "sharp"):
            for clip in range(2):
                for frame in range(6):
                    picture(tmp_path / f"{split}/{split}_{role}/{clip:03d}/{frame:08d}.png")
    assert found(tmp_path) == {}
    (tmp_path / "val/val_blur").rename(tmp_path / "val/Blur")
    (tmp_path / "val/val_sharp").rename(tmp_path / "val/sharp")
    findings = found(tmp_path)
    assert set(findings) == {"PIT106"}
    assert "blur, and val/Blur/000, val/Blur/001" in findings["PIT106"].message


def test_an_empty_class_and_notes_that_are_none(tmp_path):
    classes(tmp_path)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations/all.json").write_text("{}")
    for path in (tmp_path / "train/owl").iterdir():
        path.unlink()
    findings = found(tmp_path)
    assert set(findings) == {"PIT112"}
    assert findings["PIT112"].message.endswith("do: train/owl.")


def test_a_triplet_without_its_middle(tmp_path):
    for clip in range(6):
        for frame in (1, 2, 3):
            picture(tmp_path / f"sequences/00001/{clip:04d}/im{frame}.png")
    assert found(tmp_path, Plan()) == {}
    (tmp_path / "sequences/00001/0003/im2.png").unlink()
    assert "00001/0003" in found(tmp_path, Plan())["PIT112"].message


def test_channels_that_a_batch_cannot_be_stacked_from(tmp_path):
    for index in range(9):
        picture(tmp_path / f"{'abcdefghi'[index]}.png")
    Image.new("I;16", (32, 24), 700).save(tmp_path / "d.png")
    findings = found(tmp_path)
    assert set(findings) == {"PIT125"}
    assert "I;16 instead of RGB: d.png" in findings["PIT125"].message


def test_a_link_to_a_file_that_is_not_there(tmp_path):
    picture(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to("/nowhere/b.png")
    assert "not there: b.png" in found(tmp_path)["PIT119"].message


def test_a_tensor_of_zeros_among_others(tmp_path):
    for index in range(9):
        np.save(tmp_path / f"{index}.npy", np.full((8, 64), index, np.float32))
    findings = found(tmp_path)
    assert set(findings) == {"PIT120"}
    assert "All zero: 0.npy" in findings["PIT120"].message


@pytest.mark.parametrize(
    ("line", "missing"),
    [("00001/{:04d}", "00001/0009"), ("00001/{0:04d}/im1.png 00001/{0:04d}/im3.png", "im3.png")],
)
def test_a_text_that_lists_what_is_not_there(tmp_path, line, missing):
    for clip in range(6):
        for frame in (1, 2, 3):
            picture(tmp_path / f"sequences/00001/{clip:04d}/im{frame}.png")
    (tmp_path / "readme.txt").write_text("Frames and/or clips\nsee https://a.org/b\n")
    lines = [line.format(clip) for clip in range(6)]
    (tmp_path / "tri_trainlist.txt").write_text("\n".join(lines))
    assert found(tmp_path, Plan()) == {}
    (tmp_path / "tri_trainlist.txt").write_text("\n".join([*lines, line.format(9)]))
    findings = found(tmp_path, Plan())
    assert set(findings) == {"PIT112"}
    assert missing in findings["PIT112"].message


def test_partners_in_one_folder(tmp_path):
    for scene in range(3):
        for name in ("GT_SRGB_010", "NOISY_SRGB_010"):
            picture(tmp_path / f"{scene:04d}_S6/{scene:04d}_{name}.png")
    for index in range(5):
        for word in ("blur", "sharp"):
            picture(tmp_path / f"more/{index}_{word}.png")
    dataset = read_dataset(tmp_path, Plan())
    assert examine(dataset).findings == ()
    assert (dataset.layout, samples(dataset)) == ("pairs", 8)
    (tmp_path / "more/3_sharp.png").unlink()
    assert "No sharp file beside: more/3_blur.png" in found(tmp_path)["PIT112"].message


def whole_but_odd(function):
    ODD.append(pytest.param(function, id=function.__name__))
    return function


ODD = []


@whole_but_odd
def masks_that_are_equal(root):
    for index in range(6):
        picture(root / f"images/{index}.jpg")
        picture(root / f"masks/{index}.png", seed=1)


@whole_but_odd
def pictures_with_label_files_for_most(root):
    for split in ("train", "val"):
        (root / "labels" / split).mkdir(parents=True)
        for index in range(6):
            picture(root / "images" / split / f"{index}.jpg")
            if index:
                (root / "labels" / split / f"{index}.txt").write_text("0 0.5 0.5 1 1")


@whole_but_odd
def spikes_of_a_kind_that_is_not_read(root):
    for clip in range(3):
        for frame in range(6):
            picture(root / f"train/c{clip}/sharp/{frame:04d}.png")
            picture(root / f"train/c{clip}/blur/{frame:04d}.png")
        (root / f"train/c{clip}/spike").mkdir()
        (root / f"train/c{clip}/spike/0000.dat").write_bytes(b"x")


@whole_but_odd
def tensors_whose_shapes_vary(root):
    for index in range(12):
        np.save(root / f"{index}.npy", np.zeros((index % 5 + 1, 4), np.float32))


@whole_but_odd
def low_resolution_rounded_up(root):
    for index, height in enumerate((96, 97, 98, 99, 100, 101)):
        picture(root / f"HR/{index}.png", size=(128, height))
        picture(root / f"LR/{index}x4.png", size=(32, -(-height // 4)))


@whole_but_odd
def splits_with_a_year(root):
    for split in ("train2017", "val2017"):
        for index in (9, 25, 30, 785, 2006):
            picture(root / split / f"{index:012d}.jpg")
    (root / "annotations").mkdir()
    (root / "annotations/instances_train2017.json").write_text("{}")


@whole_but_odd
def black_frames_of_masks(root):
    for index in range(4):
        picture(root / f"images/{index}.jpg")
        (root / "masks").mkdir(exist_ok=True)
        Image.new("L", (32, 24)).save(root / f"masks/{index}.png")


@whole_but_odd
def frames_in_steps_of_five(root):
    for clip in ("bear", "dance"):
        for frame in range(0, 50, 5):
            picture(root / "train" / clip / f"{frame:05d}.jpg")


@whole_but_odd
def low_resolution_in_folders_of_scales(root):
    for index in range(4):
        picture(root / f"DIV2K_train_HR/{index:04d}.png", size=(64, 48))
        for scale in (2, 4):
            name = f"DIV2K_train_LR_bicubic/X{scale}/{index:04d}x{scale}.png"
            picture(root / name, size=(64 // scale, 48 // scale))


@whole_but_odd
def words_in_names_that_make_no_pairs(root):
    for index in range(6):
        picture(root / f"clean_{'abcdef'[index]}.png")
        picture(root / f"noisy_{'ghijkl'[index]}.png")


@whole_but_odd
def two_domains_without_pairs(root):
    for index in range(8):
        picture(root / f"trainA/{index:04d}.jpg", size=(32, 24 + index % 2))
    for index in range(5):
        picture(root / f"trainB/{index:04d}.jpg", size=(30 + index, 24))


@whole_but_odd
def a_model_beside_the_pictures(root):
    for index in range(6):
        picture(root / f"images/{index}.png")
    for name in (
        "loras/dusk/pytorch_lora_weights",
        "loras/noir/pytorch_lora_weights",
        "model/unet/diffusion_pytorch_model",
        "model/vae/diffusion_pytorch_model",
    ):
        (root / name).parent.mkdir(parents=True)
        save_file({"a": np.full(3, np.nan, "f2")}, root / f"{name}.safetensors")
    for name in ("scheduler", "tokenizer"):
        (root / "model" / name).mkdir()
        (root / "model" / name / "config.json").write_text("{}")
    (root / "metadata.jsonl").write_text('{"file_name": "images/0.png"}\n')


@pytest.mark.parametrize("name", ["metadata.jsonl", "metadata.csv"])
def test_a_file_that_the_metadata_name_is_missing(tmp_path, name):
    picture(tmp_path / "train/a.png")
    rows = ["a.png", "b.png"]
    text = "file_name,text\n" + "".join(f"{row},a cat\n" for row in rows)
    if name.endswith("jsonl"):
        text = "".join(f'{{"file_name": "{row}", "text": "a cat"}}\n' for row in rows)
    (tmp_path / "train" / name).write_text(text)
    findings = found(tmp_path)
    assert set(findings) == {"PIT112"}
    assert "train/b.png" in findings["PIT112"].message


@pytest.mark.parametrize("build", ODD)
def test_what_is_odd_and_right_gives_no_finding(tmp_path, build):
    build(tmp_path)
    assert found(tmp_path) == {}


def test_a_name_that_is_no_text_can_be_told(tmp_path, capsysbinary):
    (tmp_path / os.fsdecode(b"caf\xe9\x1b[31m.png")).write_bytes(b"")
    assert run(["data", str(tmp_path)]) == 1
    printed = capsysbinary.readouterr().out
    assert b"PIT119 Empty: caf" in printed
    assert b"\x1b" not in printed
