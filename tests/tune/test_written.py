"""What counts as written past the scratch folder."""

import json

from pitstop.tune import written


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
