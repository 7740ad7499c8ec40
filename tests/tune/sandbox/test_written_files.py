"""What counts as refused, and what as a cache that may be filled."""

import json

import pytest

from pitstop.tune.sandbox import audit, caches, written_files
from pitstop.tune.sandbox.sandbox import Sandbox


def box(scratch):
    return Sandbox(scratch, scratch, (), lists=True, fenced=True, tag="")


def test_a_cache_may_be_filled(tmp_path, monkeypatch):
    """As CuPy does at the first run on a machine; the next one finds its kernels there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    opened = [".cupy", ".cupy/kernel_cache/1.cubin", "triton/2.json", ".cupying", "model.pt"]
    told = [json.dumps(["open", str(tmp_path / each)]) + "\n" for each in opened]
    (tmp_path / audit.FILE).write_text("".join(told))
    found = written_files.written(box(tmp_path), ("by-a-program",))
    past = (str(tmp_path / ".cupying"), str(tmp_path / "model.pt"))
    assert found.refused == (*past, "by-a-program")


@pytest.mark.parametrize("cache", [".", "..", "/"])
def test_what_we_work_in_is_no_cache(tmp_path, monkeypatch, cache):
    """Else checkpoints would be written in earnest, and nobody would say so."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", cache)
    assert not any(tmp_path / "project" == each.resolve() for each in caches.caches())
