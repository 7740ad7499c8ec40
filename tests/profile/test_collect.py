"""Recordings become evidence; those of older releases as far as they go."""

import json

from pitstop.profile.read.collect import collect


def test_a_loader_that_told_less_in_an_older_release_is_read(tmp_path):
    settings = {"dataset": "Clips", "workers": 2, "made": ["/a/train.py", 5, "main"]}
    notes = [{"loader": settings, "number": 0}, {"fetched": [40, 1024, 1, 2, 6000], "number": 0}]
    lines = "".join(json.dumps(note) + "\n" for note in notes)
    (tmp_path / "rank0-1.jsonl").write_text(lines)
    (evidence,) = collect(tmp_path, warmup=3)
    (loader,) = evidence.loaders
    assert (loader.batches, loader.starts, loader.start_ms) == (40, 2, 3.0)
    assert not loader.trains


def test_the_first_reading_after_an_unread_inspected_step_may_have_its_peak(tmp_path):
    rows = [
        [second * 1e6, "optimizer", 0, -1, inspected, 0, 0, 0, 0, 0, 9e5, 0, peak, peak]
        + [None] * 5
        for second, inspected, peak in ((1, 0, 20), (2, 1, None), (3, 0, 44), (4, 0, 44))
    ]
    (tmp_path / "rank0-1.jsonl").write_text(json.dumps({"slices": rows}) + "\n")
    (evidence,) = collect(tmp_path, warmup=0)
    read = [(each.gpu_peak_bytes, each.inspected) for each in evidence.memory]
    assert read == [(20, False), (44, True), (44, False)]
