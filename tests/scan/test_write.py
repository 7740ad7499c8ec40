import os
import stat
import sys
from pathlib import Path

import pytest

from pitstop.core.errors import PitstopError
from pitstop.scan.write import Change, may_be_written, write_changes

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX matters")


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@posix
def test_content_changes_and_the_mode_stays(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"a\r\n")
    path.chmod(0o755)
    write_changes([Change(path, b"a\r\n", b"b\r\n")])
    assert files_of(tmp_path) == {"a.py": b"b\r\n"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@posix
def test_nothing_is_written_through_a_symbolic_link(tmp_path):
    target = tmp_path / "target.py"
    target.write_bytes(b"a")
    link = tmp_path / "link.py"
    link.symlink_to(target)
    with pytest.raises(PitstopError, match="symbolic link"):
        write_changes([Change(link, b"a", b"b")])
    assert target.read_bytes() == b"a"
    assert link.is_symlink()


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"new")
    with pytest.raises(PitstopError, match="changed while"):
        write_changes([Change(path, b"old", b"b")])
    assert files_of(tmp_path) == {"a.py": b"new"}


@posix
def test_it_stays_the_same_file_for_its_other_names_and_its_owner(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    (tmp_path / "other.py").hardlink_to(path)
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
    before = path.stat()
    write_changes([Change(path, b"old", b"newer")])
    assert files_of(tmp_path) == {"a.py": b"newer", "other.py": b"newer"}
    after = path.stat()
    assert (after.st_ino, after.st_uid, after.st_gid) == (
        before.st_ino,
        before.st_uid,
        before.st_gid,
    )


@posix
def test_a_read_only_file_may_not_be_written_not_even_by_root(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"a")
    assert may_be_written(path)
    path.chmod(0o444)
    assert not may_be_written(path)
    assert not may_be_written(tmp_path / "none.py")


def fail_on(monkeypatch, calls):
    """Let opening files for writing fail, by the number of the call; as on a full disk."""
    opened = []
    path_open = Path.open

    def refuse(path, mode="r", *rest, **options):
        if mode == "r+b":
            opened.append(path)
            if len(opened) in calls:
                path.write_bytes(b"ha")
                raise OSError(28, "No space left on device")
        return path_open(path, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", refuse)


def test_all_or_nothing_when_one_of_several_cannot_be_written(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("a.py", "b.py")]
    for path in paths:
        path.write_bytes(b"old")
    fail_on(monkeypatch, {2})
    with pytest.raises(PitstopError, match=r"b\.py: No space left.*nothing was changed"):
        write_changes([Change(path, b"old", b"new") for path in paths])
    assert files_of(tmp_path) == {"a.py": b"old", "b.py": b"old"}


def test_what_cannot_be_put_back_lies_beside(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    fail_on(monkeypatch, {1, 2})
    with pytest.raises(PitstopError, match=r"a\.py is half written: No space.*\.before holds"):
        write_changes([Change(path, b"old", b"new")])
    (copy,) = tmp_path.glob(".a.py.*.before")
    assert copy.read_bytes() == b"old"
