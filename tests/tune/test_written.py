"""What counts as written past the scratch folder."""

import json

import pytest

from pitstop.tune import scratch, written


def test_a_cache_may_be_filled(tmp_path, monkeypatch):
    """As CuPy does at the first run on a machine; the next one finds its kernels there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    opened = [".cupy", ".cupy/kernel_cache/1.cubin", "triton/2.json", ".cupying", "model.pt"]
    told = [json.dumps(["open", str(tmp_path / each)]) + "\n" for each in opened]
    (tmp_path / written.FILE).write_text("".join(told))
    changed = {str(tmp_path / each): (1, 1) for each in (".cache/torch/weights", "by-a-program")}
    found = written.written(tmp_path, {}, changed)
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
    assert not any(tmp_path / "project" == each.resolve() for each in scratch.caches())
    changed = {str(tmp_path / "project" / "model.pt"): (1, 1)}
    assert written.written(tmp_path, {}, changed).escaped == tuple(changed)
