import os
import sys
from pathlib import Path

import pytest

from pitstop.core.errors import PitstopError
from pitstop.scan.files import LARGEST_PYTHON_BYTES, find_files

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*names, text="x = 1\n"):
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def names(*paths, exclude=()):
    return [file.name for file in find_files([Path(p) for p in paths or ["."]], exclude).files]


def test_python_and_config_files_in_sorted_order_with_slashes(folder):
    write("b.py", "a/c.py", "a/conf.yaml", "a/data.bin", "readme.md", "a/x.json")
    assert names() == ["a/c.py", "a/conf.yaml", "a/x.json", "b.py"]


@pytest.mark.parametrize(
    "name", [".venv", "node_modules", "build", ".git", "__pycache__", "site-packages"]
)
def test_folders_that_are_never_the_users_own(folder, name):
    write(f"{name}/a.py", f"sub/{name}/a.py", "ok.py")
    assert names() == ["ok.py"]


def test_configs_of_tools_and_hidden_ones_are_left_out(folder):
    write("pyproject.toml", ".hidden.yaml", ".github/workflows/ci.yml", "package.json", "ok.toml")
    assert names() == ["ok.toml"]


def test_ignore_files_of_every_level_count(folder):
    write("a.py", "b.py", "sub/a.py", "sub/c.py", "sub/d.py", "gone/x.py", "secret.py")
    Path(".git/info").mkdir(parents=True)
    Path(".git/info/exclude").write_text("secret.py\n")
    Path(".gitignore").write_text("/a.py\ngone/\n")
    Path("sub/.gitignore").write_text("c.py\n")
    assert names() == ["b.py", "sub/a.py", "sub/d.py"]
    assert names("sub") == ["sub/a.py", "sub/d.py"]


def test_an_ignore_file_above_the_given_folder_counts_in_a_repository(folder):
    write("sub/a.py", "sub/b.py")
    Path(".git").mkdir()
    Path(".gitignore").write_text("b.py\n")
    assert names("sub") == ["sub/a.py"]


def test_a_file_that_is_named_outright_is_scanned_whatever_git_thinks(folder):
    write("a.py")
    Path(".gitignore").write_text("a.py\n")
    assert names("a.py") == ["a.py"]
    assert names("a.py", exclude=("a.py",)) == []


def test_exclude_takes_globs(folder):
    write("a.py", "tests/a.py", "tests/deep/b.py", "src/test_x.py")
    assert names(exclude=("tests", "test_*")) == ["a.py"]


def test_the_same_file_twice_is_scanned_once(folder):
    write("a.py")
    assert names(".", "a.py") == ["a.py"]


@posix
def test_links_are_not_followed_and_loops_end(folder):
    write("sub/a.py")
    Path("sub/loop").symlink_to("..")
    Path("link.py").symlink_to("sub/a.py")
    found = find_files([Path()])
    assert [file.name for file in found.files] == ["sub/a.py"]
    assert found.skipped == [
        "link.py: symbolic link, not followed",
        "sub/loop: symbolic link, not followed",
    ]


def test_an_unreadable_folder_is_one_line_and_the_rest_is_scanned(folder, monkeypatch):
    write("a.py", "locked/b.py")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_files([Path()])
    assert [file.name for file in found.files] == ["a.py"]
    assert found.unread == ["locked: cannot be read (Permission denied)"]


def test_a_generated_file_is_one_line_and_a_large_config_is_data(folder):
    write("big.py", "big.json", text="x" * (LARGEST_PYTHON_BYTES + 1))
    found = find_files([Path()])
    assert found.files == []
    assert found.skipped == ["big.py: 2.0 MB, so generated; limit 2 MB"]


def test_notebooks_are_found_and_may_be_larger(folder):
    write("a.ipynb", text="x" * (LARGEST_PYTHON_BYTES + 1))
    assert [file.name for file in find_files([Path()]).files] == ["a.ipynb"]


def test_a_path_that_is_not_there_cannot_be_scanned(folder):
    with pytest.raises(PitstopError, match="nope: No such file"):
        find_files([Path("nope")])


def test_paths_outside_the_working_folder_are_shown_whole(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "a.py").write_text("")
    assert names(str(other)) == [(other / "a.py").as_posix()]
