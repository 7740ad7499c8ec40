import json

import pytest

from pitstop.workloads.cache import MANIFEST, dataset


def two_files(folder):
    for name in ("a.bin", "b.bin"):
        (folder / "deep").mkdir(exist_ok=True)
        (folder / "deep" / name).write_bytes(b"x" * 100)
        yield


class Counted:
    def __init__(self):
        self.builds = 0

    def __call__(self, folder):
        self.builds += 1
        return two_files(folder)


@pytest.fixture
def build():
    return Counted()


def test_is_built_once_and_then_found(build, tmp_path):
    first = dataset("d", 1, build, 2, tmp_path)
    assert dataset("d", 1, build, 2, tmp_path) == first
    assert build.builds == 1
    assert sorted(json.loads((first / MANIFEST).read_text())["files"]) == [
        "deep/a.bin",
        "deep/b.bin",
    ]


def damage_truncate(folder):
    (folder / "deep" / "a.bin").write_bytes(b"x")


def damage_remove(folder):
    (folder / "deep" / "b.bin").unlink()


def damage_manifest(folder):
    (folder / MANIFEST).write_text('{"version": 1, "files": [')


@pytest.mark.parametrize("damage", [damage_truncate, damage_remove, damage_manifest])
def test_damage_is_noticed_and_mended(damage, build, tmp_path, capsys):
    folder = dataset("d", 1, build, 2, tmp_path)
    damage(folder)
    dataset("d", 1, build, 2, tmp_path)
    assert build.builds == 2
    assert (folder / "deep" / "a.bin").stat().st_size == 100
    assert "rebuilding" in capsys.readouterr().err


def test_a_new_version_is_built_again(build, tmp_path):
    dataset("d", 1, build, 2, tmp_path)
    dataset("d", 2, build, 2, tmp_path)
    assert build.builds == 2


def test_an_interrupted_build_leaves_no_dataset_and_the_next_run_builds_it(build, tmp_path):
    def interrupted(folder):
        yield from two_files(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataset("d", 1, interrupted, 2, tmp_path)
    assert not (tmp_path / "d").exists()
    assert (dataset("d", 1, build, 2, tmp_path) / "deep" / "a.bin").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_no_room_is_one_line(tmp_path):
    def full(folder):
        raise OSError(28, "No space left on device")
        yield

    with pytest.raises(SystemExit, match=r"No space left on device; free some room"):
        dataset("d", 1, full, 2, tmp_path)


def test_an_unwritable_folder_is_one_line(build, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"cannot write the dataset to .* PITSTOP_CACHE"):
        dataset("d", 1, build, 2, tmp_path / "file")
