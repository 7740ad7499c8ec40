"""Two trees are laid out, and nothing of the user's is changed."""

import hashlib
import os
from pathlib import Path

import pytest

from pitstop.core.errors import PitstopError
from pitstop.prove.git import repository
from pitstop.prove.trees import LARGE_BYTES, lay_out
from prove.trees import git, make, write


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture
def top(tmp_path):
    return make(tmp_path / "repository", **{"deep/train.py": "import model\n"})


def laid_out(top, place, base="HEAD", patch=None, started="."):
    return lay_out(repository(top), base, patch, top / started, place)


def read(tree, name):
    path = Path(tree.copy, name)
    return path.read_text() if path.exists() else None


def fingerprint(top):
    """All that is below a folder: names, contents, links and times."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            data = path.readlink() if path.is_symlink() else path.read_bytes()
            digest = hashlib.sha256(bytes(str(data), "utf-8")).hexdigest()
            found[str(path)] = digest, path.lstat().st_mtime_ns
    return found


def test_the_base_is_the_commit_and_the_edit_the_working_tree(top, place):
    write(top, {"model.py": "SCALE = 2\n", "new.py": ""})
    (top / "deep/train.py").unlink()
    trees = laid_out(top, place)
    assert (read(trees.base, "model.py"), read(trees.edit, "model.py")) == (
        "SCALE = 1\n",
        "SCALE = 2\n",
    )
    assert (read(trees.base, "deep/train.py"), read(trees.edit, "deep/train.py")) == (
        "import model\n",
        None,
    )
    assert trees.changed == ("deep/train.py", "model.py")


def test_what_git_does_not_know_of_is_the_same_in_both(top, place):
    write(top, {"bench.py": "1", "data/a/frames.bin": "x", "last.ckpt": "w"})
    trees = laid_out(top, place)
    for tree in (trees.base, trees.edit):
        assert read(tree, "bench.py") == "1"
        assert read(tree, "data/a/frames.bin") == "x"
        assert read(tree, "last.ckpt") == "w"
        assert Path(tree.copy, "data").is_symlink()
        assert not Path(tree.copy, "bench.py").is_symlink()  # Python looks beside a link's target
    assert trees.changed == ()


def test_large_files_are_linked_and_still_compared(top, place):
    (top / "weights.bin").write_bytes(b"0" * (LARGE_BYTES + 1))
    git(top, "add", "-A")
    git(top, "commit", "-qm", "weights")
    trees = laid_out(top, place)
    assert Path(trees.edit.copy, "weights.bin").is_symlink()
    assert trees.changed == ()
    (top / "weights.bin").write_bytes(b"1" * (LARGE_BYTES + 1))
    (place.parent / "again").mkdir()
    assert laid_out(top, place.parent / "again").changed == ("weights.bin",)


def test_a_patch_is_applied_to_the_base_and_not_to_the_working_tree(top, place, tmp_path):
    write(top, {"model.py": "SCALE = 3\n"})
    patch = tmp_path / "a.patch"
    patch.write_text(git(top, "diff"))
    write(top, {"model.py": "SCALE = 9\n"})
    trees = laid_out(top, place, patch=patch)
    assert read(trees.edit, "model.py") == "SCALE = 3\n"
    assert trees.changed == ("model.py",)


def test_a_patch_that_does_not_apply_is_said(top, place, tmp_path):
    (tmp_path / "bad.patch").write_text("--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n")
    with pytest.raises(PitstopError, match=r"does not apply to the base: none\.py"):
        laid_out(top, place, patch=tmp_path / "bad.patch")


def test_submodules_are_as_they_are_checked_out(top, place, tmp_path):
    make(tmp_path / "library", **{"fast.py": "1"})
    git(top, "submodule", "add", "-q", str(tmp_path / "library"), "library")
    git(top, "commit", "-qm", "with a submodule")
    write(top, {"library/fast.py": "edited"})
    trees = laid_out(top, place)
    assert read(trees.base, "library/fast.py") == read(trees.edit, "library/fast.py") == "edited"
    assert any("library" in each for each in trees.notes)


def test_the_command_begins_in_the_folder_that_it_was_started_in(top, place):
    trees = laid_out(top, place, started="deep")
    assert trees.base.begins == Path(trees.base.copy, "deep")


def test_nothing_of_the_users_is_changed(top, place):
    write(top, {"model.py": "SCALE = 2\n", "new.py": "", "data/x": "1"})
    git(top, "config", "core.splitIndex", "true")
    git(top, "config", "core.untrackedCache", "true")
    hook = top / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {top}/hooked\n")
    hook.chmod(0o755)
    before = fingerprint(top)
    laid_out(top, place)
    assert fingerprint(top) == before


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD~9"])
def test_a_revision_that_is_not_there_is_said(revision, top, place):
    with pytest.raises(PitstopError, match="no such revision"):
        laid_out(top, place, base=revision)


def test_a_folder_without_git_is_told_what_to_use(tmp_path):
    with pytest.raises(PitstopError, match="pitstop compare"):
        repository(tmp_path)
