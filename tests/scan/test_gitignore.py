import random
import re
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


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge")
def test_agrees_with_git_on_patterns_that_nobody_thought_of(tmp_path):
    """One folder per pattern, so that one git answers for all of them."""
    chance = random.Random(0)
    pieces = ["a", "b", "*", "**", "**/", "/", "?", "[ab]", "[!a]", "\\*", "ab", "a/"]
    patterns = ["".join(chance.choices(pieces, k=chance.randint(1, 6))) for _ in range(400)]
    # git itself does not treat these as its pages say
    odd = re.compile(r"\*\*\*|//|\*\*/\*\*|^/$|[^/]\*\*")
    patterns = [each for each in patterns if not odd.search(each)]
    names = ["a", "b", "ab", "ba", "aab", "*", "abab"]
    paths = ["/".join(chance.choices(names, k=chance.randint(1, 4))) for _ in range(60)]
    asked = []
    for number, pattern in enumerate(patterns):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / ".gitignore").write_text(f"{pattern}\n")
        asked += [(f"d{number}/{path}", pattern, number) for path in paths]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    answer = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(path for path, _, _ in asked),
        capture_output=True,
        text=True,
        check=False,
    )
    by_git = set(answer.stdout.split("\0"))
    parsed = [parse_pattern(pattern, f"d{number}") for number, pattern in enumerate(patterns)]
    wrong = [
        (pattern, path)
        for path, pattern, number in asked
        if (path in by_git) is not _ignored_on_the_way(parsed[number], path)
    ]
    assert dict(wrong) == {}
    assert len(by_git) > 1000


def _ignored_on_the_way(pattern, path):
    """As git sees it, what lies in an ignored folder is ignored."""
    *above, _ = path.split("/")
    folders = ["/".join(path.split("/")[:count]) for count in range(2, len(above) + 1)]
    known = [pattern] if pattern else []
    return any(is_ignored(known, each, True) for each in folders) or is_ignored(known, path, False)


def test_stars_that_match_in_many_ways_take_no_time():
    for line in ("*a" * 30 + "*b", "**/a/" * 12 + "b", "*a*a*a*/" * 8 + "b"):
        pattern = parse_pattern(line)
        assert pattern is not None
        assert not is_ignored([pattern], "a" * 250 + "c", False)
        assert not is_ignored([pattern], "a/" * 1000 + "c", False)
        assert not is_ignored([pattern], ("a" * 200 + "/") * 10 + "c", False)


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
