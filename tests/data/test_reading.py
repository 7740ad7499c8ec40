"""Reading a dataset: few names in memory, all cores, and nothing that waits or runs."""

import os
import random
import struct
import sys
import tracemalloc

import numpy as np
import pytest
import torch

from data.builders import clips, pairs, picture
from pitstop.core.errors import PitstopError
from pitstop.data.examine import examine
from pitstop.data.needs import batch_bytes, clip_lengths, sample_ms, samples, workers_needed
from pitstop.data.read import Plan, read_dataset
from pitstop.data.walk import Walk


def codes(root, plan=None):
    return [finding.code for finding in examine(read_dataset(root, plan or Plan())).findings]


def test_several_processes_see_what_one_sees(tmp_path):
    clips(tmp_path, splits=("train",))
    (tmp_path / "train/GOPR_train_0/blur/00000001.png").write_text("no picture")
    seen = []
    one = read_dataset(tmp_path, Plan(cores=1), tick=seen.append)
    two = read_dataset(tmp_path, Plan(cores=2), tick=seen.append)
    assert sum(seen) == one.opened + two.opened == 2 * 72
    assert one.unreadable == two.unreadable
    assert [(role.name, role.shape, role.numbers) for role in one.roles] == [
        (role.name, role.shape, role.numbers) for role in two.roles
    ]


def test_a_sample_opens_partners_together_and_says_so(tmp_path):
    pairs(tmp_path, number=200)
    dataset = read_dataset(tmp_path, Plan(sample=60))
    opened = {role.name: role.opened for role in dataset.roles}
    assert opened["HQ"] == opened["LQ"]
    assert 20 < dataset.opened < 110
    report = examine(dataset)
    assert "--sample 0" in report.notes[0]
    assert read_dataset(tmp_path, Plan(sample=0)).opened == 400


def test_a_pipe_a_device_and_a_link_in_a_circle_are_no_data(tmp_path):
    picture(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    (tmp_path / "c.png").symlink_to("/dev/zero")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    dataset = read_dataset(tmp_path)
    assert (dataset.files, dataset.opened) == (1, 1)
    assert examine(dataset).findings == ()


def test_a_folder_without_permission_is_left_out_and_told(tmp_path, monkeypatch):
    picture(tmp_path / "a.png")
    (tmp_path / "secret").mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert read_dataset(tmp_path).skipped == ("secret: Permission denied",)


@pytest.mark.parametrize("name", ["missing", "a.png"])
def test_a_path_that_is_no_folder_is_one_clear_line(tmp_path, name):
    picture(tmp_path / "a.png")
    with pytest.raises(PitstopError, match="give the folder"):
        read_dataset(tmp_path / name)


def test_what_a_step_needs(tmp_path):
    clips(tmp_path, splits=("train",), number=2, frames=8)
    dataset = read_dataset(tmp_path, Plan(window=5, batch=4, step_ms=1e-3, cores=1))
    assert list(clip_lengths(dataset).values()) == [8, 8]
    assert samples(dataset) == 8
    assert batch_bytes(dataset) == 4 * 5 * 4 * (2 * 32 * 24 * 3 + 5 * 24 * 32)
    assert sample_ms(dataset) > 0
    assert workers_needed(dataset) > 1
    assert "PIT110" in {finding.code for finding in examine(dataset).findings}
    tables = {table.title: table for table in examine(dataset).tables}
    assert any("workers for a step" in row[0] for row in tables["feeding a model"].rows)


def test_a_file_too_large_to_open_is_no_fault_of_it(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros(500))
    np.save(tmp_path / "b.npy", np.zeros(5))
    monkeypatch.setattr("pitstop.data.look.LARGEST_BYTES", 1000)
    report = examine(read_dataset(tmp_path))
    assert report.findings == ()
    assert report.skipped == ("files larger than 256 MB were not opened: a.npy",)
    assert "1 of 2 files that were opened" in report.verdict


def test_without_numpy_nothing_is_claimed_about_nan(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.full(5, np.nan))
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setattr("pitstop.data.read.find_spec", lambda name: None)
    report = examine(read_dataset(tmp_path))
    assert report.findings == ()
    assert report.skipped == ("tensors were not searched for NaN: pip install numpy",)


def test_without_pillow_ends_are_looked_at_and_the_rest_is_not_claimed(tmp_path, monkeypatch):
    path = picture(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(path.read_bytes()[:-40])
    monkeypatch.setattr("pitstop.data.pictures.pillow", lambda: None)
    report = examine(read_dataset(tmp_path))
    assert [finding.code for finding in report.findings] == ["PIT119"]
    assert any("pip install pillow" in note for note in report.notes)
    assert any("n/a" in row for table in report.tables for row in table.rows)


@pytest.mark.slow
def test_memory_stays_flat_with_many_files(tmp_path):
    def peak(number):
        root = tmp_path / str(number)
        for index in range(number):
            folder = root / f"{index % 4}"
            if index < 4:
                folder.mkdir(parents=True)
            os.close(os.open(folder / f"{index:09d}_{random.random()}.png", os.O_CREAT))
        tracemalloc.start()
        dataset = read_dataset(root, Plan(sample=100))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert dataset.zero_length.count == number
        return used

    small, large = peak(2_000), peak(200_000)
    assert large < small + 8_000_000  # 200,000 names alone take 20 MB


def ply(path, values, count=None):
    names = ["x", "y", "z", "opacity"]
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {count or len(values)}"]
    head += [f"property float {name}" for name in names] + ["end_header", ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\n".join(head).encode() + np.asarray(values, np.float32).tobytes())


def colmap(folder, names):
    folder.mkdir(parents=True)
    (folder / "cameras.bin").write_bytes(b"")
    data = struct.pack("<Q", len(names))
    for index, name in enumerate(names):
        data += struct.pack("<idddddddi", index, 1, 0, 0, 0, 0, 0, 0, 1) + name.encode() + b"\0"
        data += struct.pack("<Q", 2) + bytes(48)
    (folder / "images.bin").write_bytes(data)


def test_a_colmap_scene_and_its_gaussians(tmp_path):
    colmap(tmp_path / "sparse/0", ["a.jpg", "b.jpg"])
    for name in "ab":
        picture(tmp_path / f"images/{name}.jpg")
    splats = tmp_path / "point_cloud/iteration_7000/point_cloud.ply"
    ply(splats, np.zeros((9, 4)))
    dataset = read_dataset(tmp_path)
    assert [(store.layout, store.entries) for store in dataset.stores] == [
        ("Gaussians", 9), ("COLMAP", 2),
    ]  # fmt: skip
    assert examine(dataset).findings == ()

    (tmp_path / "images/b.jpg").unlink()
    values = np.zeros((9, 4))
    values[3, 3] = np.nan
    ply(splats, values)
    assert codes(tmp_path) == ["PIT112", "PIT701"]

    ply(splats, np.zeros((9, 4)), count=12)
    data = (tmp_path / "sparse/0/images.bin").read_bytes()
    (tmp_path / "sparse/0/images.bin").write_bytes(data[:100])
    assert codes(tmp_path) == ["PIT119", "PIT119"]


def test_a_store_of_keys(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    with (
        lmdb.open(str(tmp_path / "train_HQ.lmdb")) as environment,
        environment.begin(write=True) as to,
    ):
        to.put(b"0001", b"x" * 100)
    (tmp_path / "train_HQ.lmdb/meta_info.txt").write_text(
        "0001.png (4,4,3) 1\n0002.png (4,4,3) 1\n"
    )
    dataset = read_dataset(tmp_path)
    assert dataset.stores[0].entries == 1
    assert codes(tmp_path) == ["PIT112"]


def store(path, values):
    lmdb = pytest.importorskip("lmdb")
    with (
        lmdb.open(str(path), map_size=1 << 24) as environment,
        environment.begin(write=True) as to,
    ):
        for key, value in values.items():
            to.put(key.encode(), value)


def test_the_values_of_a_store_are_opened(tmp_path):
    data = picture(tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").unlink()
    values = {f"{index:04d}": data for index in range(20)}
    store(tmp_path / "train_blur.lmdb", values)
    store(tmp_path / "val_blur.lmdb", {"0000": data})
    store(tmp_path / "train_sharp.lmdb", values)
    assert examine(read_dataset(tmp_path)).findings == ()
    wrong = {"0003": data[:99], "0004": b"", "0005": b"no picture"}
    store(tmp_path / "train_sharp.lmdb", {**wrong, "more": data})
    messages = [finding.message for finding in examine(read_dataset(tmp_path)).findings]
    assert messages == [
        "1 key is missing that train_sharp.lmdb has: train_blur.lmdb.",
        "Cut short: train_sharp.lmdb:0003.",
        "Empty: train_sharp.lmdb:0004.",
        "Neither a picture nor a tensor: train_sharp.lmdb:0005.",
    ]


def test_a_store_that_was_cut_short_ends_its_reader_and_not_us(tmp_path):
    data = bytes(5000)
    store(tmp_path / "a.lmdb", {f"{index:04d}": data for index in range(50)})
    os.truncate(tmp_path / "a.lmdb/data.mdb", 40_000)
    assert codes(tmp_path) == ["PIT119"]


@pytest.mark.parametrize("seed", range(20))
def test_wrong_bytes_are_facts_and_never_tracebacks(tmp_path, seed):
    chance = random.Random(seed)
    colmap(tmp_path / "sparse/0", ["a.jpg", "b.jpg"])
    ply(tmp_path / "point_cloud.ply", np.zeros((9, 4)))
    np.save(tmp_path / "a.npy", np.zeros((3, 4), np.float32))
    np.savez(tmp_path / "b.npz", a=np.zeros(9))
    torch.save({"a": [torch.zeros(9)]}, tmp_path / "c.pt")
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "d.png"}\n')
    for name in ("d.png", "e.jpg"):
        picture(tmp_path / name)
    for path in tmp_path.rglob("*.*"):
        data = bytearray(path.read_bytes())
        for _ in range(chance.choice((1, 3, 20))) if data else ():
            data[chance.randrange(min(len(data), chance.choice((64, len(data)))))] = (
                chance.randrange(256)
            )
        path.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data) + 1)))])
    assert examine(read_dataset(tmp_path)).verdict


def box(kind, content):
    return struct.pack(">I", 8 + len(content)) + kind + content


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (box(b"ftyp", b"isom") + box(b"mdat", bytes(99)), "Cut short"),  # no index
        (box(b"ftyp", b"isom") + box(b"mdat", bytes(99))[:50], "Cut short"),
        (b"<html>404</html>", "Not a video"),
    ],
)
def test_a_broken_video(tmp_path, data, words):
    (tmp_path / "a.mp4").write_bytes(data)
    (finding,) = examine(read_dataset(tmp_path)).findings
    assert finding.code == "PIT119"
    assert words in finding.message


def test_the_walk_yields_a_tally_and_not_the_names(tmp_path):
    pairs(tmp_path)
    folders = list(Walk(tmp_path).folders())
    assert [folder.path for folder in folders] == ["", "HQ", "LQ"]
    assert folders[1].files[0].count == 6
    assert folders[1].files[0].names == folders[2].files[0].names
