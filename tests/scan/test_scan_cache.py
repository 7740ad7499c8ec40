from pathlib import Path

import pytest

from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.scan import cache
from pitstop.scan.cache import Entries, Facts, Result, digest

FINDING = Finding(
    "x", Span("a.py", 1, 2, 3, 4), fix=Fix("t", (Edit(0, 1, "é"),)), code="PIT202", rule="r"
)
ENTRIES = Entries({b"k": Facts(b"data"), b"p": Facts(problem="why")}, {b"r": Result([FINDING])})


def test_what_was_saved_is_loaded(tmp_path):
    file = tmp_path / "deep" / "cache.bin"
    cache.save(file, ENTRIES)
    assert cache.load(file) == ENTRIES
    assert [path.name for path in file.parent.iterdir()] == ["cache.bin"]


@pytest.mark.parametrize("where", [0, 10, 25, -1])
def test_a_damaged_file_counts_as_none(tmp_path, where):
    file = tmp_path / "cache.bin"
    cache.save(file, ENTRIES)
    data = bytearray(file.read_bytes())
    data[where] ^= 0xFF
    file.write_bytes(data)
    assert cache.load(file) == Entries()


@pytest.mark.parametrize(
    "data", [b"", b"short", digest(b"\xc1") + b"\xc1", digest(b"\x01") + b"\x01"]
)
def test_a_file_of_something_else_counts_as_none(tmp_path, data):
    file = tmp_path / "cache.bin"
    file.write_bytes(data)
    assert cache.load(file) == Entries()
    assert cache.load(tmp_path / "missing.bin") == Entries()


def test_a_place_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache.save(tmp_path / "file" / "cache.bin", ENTRIES)


def test_keys_do_not_run_together():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") != digest("a", "")


def test_other_paths_have_another_file():
    assert cache.cache_file([Path("a")]) != cache.cache_file([Path("b")])
    assert cache.cache_file([Path("a")]) == cache.cache_file([Path("a").absolute()])


def test_a_result_that_cannot_be_read_back_does_not_void_the_others(tmp_path):
    good, odd = cache.Result([Finding("a")]), cache.Result([Finding("b", per="century")])
    cache.save(tmp_path / "c.bin", cache.Entries({}, {b"1": good, b"2": odd}))
    assert cache.load(tmp_path / "c.bin").results == {b"1": good}
