from pathlib import Path

import pytest

from pitstop.profile.record.caches import caches


class Clips:
    def __init__(self, **kept):
        self.paths = ["a", "b"]
        self.__dict__.update(kept)  # as if by self.frame_cache


class Part:
    def __init__(self, dataset):
        self.dataset = dataset


class Broken:
    def __getattr__(self, name):
        raise RuntimeError(name)


def test_tells_how_much_each_cache_holds_and_where_it_is_named():
    (found,) = caches(Clips(frame_cache={1: "x", 2: "y"}))
    name, entries, path, line, function = found
    assert (name, entries, function) == ("frame_cache", 2, "Clips")
    assert path == __file__
    assert line == 11


def test_looks_into_a_subset():
    assert [each[:2] for each in caches(Part(Part(Clips(_memo=[]))))] == [["_memo", 0]]


def test_other_attributes_and_switches_are_no_caches():
    assert caches(Clips(use_cache=True, cache=None, cache_dir="/tmp", labels={})) == []


def test_a_dataset_that_cannot_be_looked_at_has_none():
    assert caches(Broken()) == []


def test_a_run_tells_what_a_later_epoch_finds_in_the_cache(profiled):
    pytest.importorskip("torch")
    filled, empty = profiled("cached.py").evidence.loaders
    assert [(each.name, each.entries) for each in filled.caches] == [("clip_cache", 6)]
    assert [(each.name, each.entries) for each in empty.caches] == [("clip_cache", 0)]
    assert Path(empty.caches[0].made.path).name == "cached.py"
    assert empty.caches[0].made.line == 10
