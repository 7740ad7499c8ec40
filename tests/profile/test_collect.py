"""Recordings of older releases are read as far as they go."""

import json

from pitstop.profile.collect import collect


def test_a_loader_that_told_less_in_an_older_release_is_read(tmp_path):
    settings = {"dataset": "Clips", "workers": 2, "made": ["/a/train.py", 5, "main"]}
    notes = [{"loader": settings, "number": 0}, {"fetched": [40, 1024, 1, 2, 6000], "number": 0}]
    lines = "".join(json.dumps(note) + "\n" for note in notes)
    (tmp_path / "rank0-1.jsonl").write_text(lines)
    (evidence,) = collect(tmp_path, warmup=3)
    (loader,) = evidence.loaders
    assert (loader.batches, loader.starts, loader.start_ms) == (40, 2, 3.0)
    assert not loader.trains
