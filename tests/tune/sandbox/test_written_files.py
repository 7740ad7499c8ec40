"""What counts as written past the scratch folder."""

import json

import pytest

from pitstop.tune.sandbox import redirect, written_files


def test_a_cache_may_be_filled(tmp_path, monkeypatch):
    """As CuPy does at the first run on a machine; the next one finds its kernels there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    opened = [".cupy", ".cupy/kernel_cache/1.cubin", "triton/2.json", ".cupying", "model.pt"]
    told = [json.dumps(["open", str(tmp_path / each)]) + "\n" for each in opened]
    (tmp_path / written_files.FILE).write_text("".join(told))
    changed = {str(tmp_path / each): (1, 1) for each in (".cache/torch/weights", "by-a-program")}
    found = written_files.written(tmp_path, {}, changed)
    assert found.escaped == tuple(
        str(tmp_path / x) for x in (".cupying", "by-a-program", "model.pt")
    )


@pytest.mark.parametrize("cache", [".", "..", "/"])
def test_what_we_work_in_is_no_cache(tmp_path, monkeypatch, cache):
    """Else checkpoints would be written in earnest, and nobody would say so."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", cache)
    assert not any(tmp_path / "project" == each.resolve() for each in redirect.caches())
    changed = {str(tmp_path / "project" / "model.pt"): (1, 1)}
    assert written_files.written(tmp_path, {}, changed).escaped == tuple(changed)


def test_what_changes_below_the_folders_of_a_command_is_noticed(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    words = ["python", str(tmp_path / "src" / "train.py"), f"--out={tmp_path / 'new' / 'run'}"]
    folders = written_files.folders_of(words, tmp_path / "out")
    before = written_files.snapshot(folders)
    (tmp_path / "new" / "run").mkdir(parents=True)
    (tmp_path / "new" / "run" / "model.bin").touch()
    after = written_files.snapshot(folders)
    assert set(after) - set(before) == {str(tmp_path / "new" / "run" / "model.bin")}
