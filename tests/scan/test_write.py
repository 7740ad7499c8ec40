import os
import stat
import sys

import pytest

from pitstop.core.errors import PitstopError
from pitstop.scan.write import Change, write_changes

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


def test_all_or_nothing_when_one_of_several_cannot_be_written(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("a.py", "b.py")]
    for path in paths:
        path.write_bytes(b"old")
    replace = os.replace

    def fail_on_b(source, target, **options):
        if str(target).endswith("b.py"):
            raise OSError(28, "No space left on device", str(target))
        return replace(source, target, **options)

    monkeypatch.setattr(os, "replace", fail_on_b)
    with pytest.raises(PitstopError, match=r"b\.py: No space left"):
        write_changes([Change(path, b"old", b"new") for path in paths])
    assert files_of(tmp_path) == {"a.py": b"old", "b.py": b"old"}
