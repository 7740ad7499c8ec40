import shutil
import subprocess

import pytest

from pitstop.scan.gitignore import is_ignored, parse_pattern

PATTERNS = [
    "*.log",
    "/top",
    "build/",
    "a/*.py",
    "**/deep",
    "x/**",
    "!keep.log",
    "\\#odd",
    "[ab].txt",
    "a/**/z",
]
PATHS = [
    *("one.log", "sub/two.log", "keep.log", "sub/keep.log", "top", "sub/top", "build", "sub/build"),
    *(
        "a/b.py",
        "a/c/d.py",
        "deep",
        "q/deep",
        "x",
        "x/y",
        "#odd",
        "a.txt",
        "c.txt",
        "a/z",
        "a/b/c/z",
    ),
    *("plain.py", "logs", "b.txt/c"),
]


def ours(path, is_folder=False):
    return is_ignored([p for line in PATTERNS if (p := parse_pattern(line))], path, is_folder)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge")
def test_agrees_with_git(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(PATTERNS) + "\n")
    answer = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin"],
        input="\n".join(PATHS),
        capture_output=True,
        text=True,
        check=False,
    )
    by_git = {line.strip('"') for line in answer.stdout.splitlines()}
    # git also ignores what lies in an ignored folder; the walk never goes there.
    assert {path for path in PATHS if ours(path)} == by_git - {"b.txt/c"}


@pytest.mark.parametrize("line", ["", "   ", "# comment", "\n"])
def test_blank_lines_and_comments_are_no_patterns(line):
    assert parse_pattern(line) is None


def test_a_pattern_for_folders_leaves_files_alone():
    assert ours("build", is_folder=True)
    assert not ours("build")


def test_a_nested_file_speaks_of_its_own_folder_only():
    pattern = parse_pattern("/only", "sub")
    assert pattern is not None
    assert is_ignored([pattern], "sub/only", False)
    assert not is_ignored([pattern], "only", False)
    assert not is_ignored([pattern], "sub/x/only", False)
