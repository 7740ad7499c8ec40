"""What a killed Pitstop has left is gone with the next search, and nothing else is."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from pitstop.tune.sandbox import folders

KILLED = """
import os, signal, sys, tempfile
from pitstop.tune.sandbox import folders
tempfile.tempdir = sys.argv[1]
with folders.temporary() as place:
    (place / "scratch").mkdir()
    (place / "scratch" / "model.pt").write_text("large")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def root(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="swept-") as place:  # a short path
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield folders.Path(place)


def left_behind(root):
    """A folder of a killed process, made two hours ago."""
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False)
    (left,) = root.glob(f"{folders.TRIAL}*")
    old = time.time() - 2 * folders.OLD_S
    os.utime(left, (old, old))
    return left


def test_what_a_killed_one_left_is_swept_at_the_start_of_the_next(root):
    left = left_behind(root)
    assert (left / "scratch" / "model.pt").exists()
    with folders.temporary(folders.SEARCH) as place:
        assert list(root.iterdir()) == [place]
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "why", ["young", "another user's", "in use", "of an older Pitstop", "link"]
)
def test_what_may_be_in_use_or_is_not_ours_stays(root, monkeypatch, why):
    left = left_behind(root)
    held = None
    if why == "young":
        os.utime(left)
    if why == "another user's":
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    if why == "in use":
        held = os.open(left / folders.LOCK, os.O_RDWR)
        folders._take(held)
    if why == "of an older Pitstop":
        (left / folders.LOCK).unlink()
        os.utime(left, (0, 0))
    if why == "link":
        left.rename(root / "mine")
        left.symlink_to(root / "mine")
    with folders.temporary():
        pass
    assert (left / "scratch" / "model.pt").exists()
    if held is not None:
        os.close(held)
