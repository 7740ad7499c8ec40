"""What a run asks of files that are there already."""

import os

import pytest

from pitstop.tune.sandbox.overlay import Overlay


def test_making_a_folder_that_is_there_fails_without_touching_it(tmp_path, monkeypatch):
    """An audit hook would take the attempt for a write that cannot be redirected."""
    overlay = Overlay(tmp_path / "scratch")
    there = tmp_path / "runs"
    there.mkdir()
    monkeypatch.setattr(os, "mkdir", lambda *_: pytest.fail("asked the system"))
    with pytest.raises(FileExistsError) as caught:
        overlay.make_folder(there)
    assert caught.value.filename == there


def test_what_must_be_new_may_be_where_the_run_has_deleted(tmp_path):
    overlay = Overlay(tmp_path / "scratch")
    lock = tmp_path / "lock"
    lock.write_text("")
    with pytest.raises(FileExistsError):
        overlay.exclusive(lock)
    overlay.remove(lock)
    assert str(overlay.exclusive(lock)).startswith(str(tmp_path / "scratch"))
