"""What a stranger's folder may hold: code that wants to run, special files, odd names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 120  # some seconds on an idle machine; for ever where a pipe is waited for
FINDING = "import torch\nfor x in train_loader:\n    x = x + torch.zeros(8).to(device)\n"
# Modules of the standard library that a starting process, or one that starts others, imports.
SHADOWED = {
    *("multiprocessing", "signal", "pickle", "subprocess", "threading", "selectors", "weakref"),
    *("concurrent", "queue", "struct", "tempfile", "runpy", "ast", "tokenize", "yaml", "msgspec"),
    *("sitecustomize", "usercustomize", "pitstop", "torch", "click", "rich"),
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="such files are POSIX matters")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


COMMAND = (str(Path(sys.executable).with_name("pitstop")),)


def scan(folder, *arguments, command=COMMAND):
    """The command as it is typed, in the folder that it scans."""
    return subprocess.run(
        [*command, "scan", *arguments],
        cwd=folder,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("command", [COMMAND, (sys.executable, "-m", "pitstop")])
def test_nothing_of_the_folder_runs(folder, command):
    """Not even in the processes that help with 2.5 MB of source."""
    body = f"open({str(folder / 'ran')!r}, 'a').write(__name__)\n"
    shadowed = SHADOWED if command == COMMAND else SHADOWED - {"pitstop"}  # what -m would run
    for name in shadowed:
        (folder / f"{name}.py").write_text(body)
    line = "value = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
    for number in range(5):
        (folder / f"large_{number}.py").write_text(line * 8_000)
    found = scan(folder, "--no-cache", "--jobs", "2", command=command)
    assert not (folder / "ran").exists()
    assert found.returncode == 0, found.stderr
    assert f"Nothing found in {len(shadowed) + 5} files.".encode() in found.stdout


@posix
def test_special_files_are_a_line_each_and_nobody_waits_for_them(folder):
    (folder / "ok.py").write_text(FINDING)
    for name in ("a.py", "c.yaml", ".gitignore", "pitstop.toml"):
        os.mkfifo(folder / name)
    (folder / "sub").mkdir()
    (folder / "sub" / ".gitignore").symlink_to("/dev/zero")
    (folder / "sub" / "zero.py").symlink_to("/dev/zero")
    found = scan(folder)
    assert found.returncode == 1, found.stderr
    for line in ("a.py: not a regular file", "c.yaml: not a regular file", "ok.py:3:13: PIT202"):
        assert line.encode() in found.stdout
    outright = scan(folder, "a.py", "sub/zero.py")
    assert outright.returncode == 2
    assert b"sub/zero.py: not a regular file" in outright.stdout


def test_patterns_and_settings_that_could_take_for_ever_do_not(folder):
    (folder / ("a" * 200 + ".py")).write_text(FINDING)
    (folder / ".gitignore").write_text("*a" * 9 + "*b\n" + "**/*a*a*a/" * 20 + "b\n")
    (folder / "wide.yaml").write_text("a: x" + " " * 60_000 + "y\n")
    (folder / "deep.yaml").write_text("a: " + "[" * 60_000)
    (folder / "open.json").write_text('"' + '\\"' * 30_000)
    found = scan(folder, "--exclude", "*a" * 9 + "*b", "--per-file-ignores", "*a" * 20 + "b:PIT2")
    assert found.returncode == 1, found.stderr
    assert b"PIT202" in found.stdout


@posix
def test_a_name_that_is_no_text_is_shown_and_its_file_scanned(folder):
    (folder / os.fsdecode(b"caf\xe9.py")).write_text(FINDING)
    (folder / "caf\\xe9.py").write_text(FINDING)
    for _ in range(2):  # the second time from the cache
        found = scan(folder, "--output", "found.json")
        assert found.returncode == 1, found.stderr
        assert (folder / "found.json").read_text(encoding="utf-8").count("caf\\\\xe9.py") >= 1
    assert scan(folder, "--fix").returncode == 0
    assert "device=device" in (folder / os.fsdecode(b"caf\xe9.py")).read_text()


def test_folders_within_folders_have_no_end(folder):
    deep = folder
    for _ in range(1200):
        deep /= "d"
        deep.mkdir()
    (deep / "a.py").write_text(FINDING)
    try:
        found = scan(folder)
    finally:
        (deep / "a.py").unlink()
        while deep != folder:  # pytest's own way to remove folders gives up before
            deep.rmdir()
            deep = deep.parent
    assert found.returncode == 1, found.stderr
    assert b"1 finding in 1 of 1 file" in found.stdout


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("pyproject.toml", b"tool = 3\n", b"1 finding in 1 of 1 file."),
        ("pyproject.toml", b"a = " + b"[" * 9000, b""),
        ("coded.py", b"# coding: undefined\n", b"coded.py: cannot be decoded"),
        ("coded.py", b"# coding: idna\nx = '\xe9'\n", b"coded.py: cannot be decoded"),
        ("huge.yaml", b"seed: " + b"9" * 5000, b"1 finding in 1 of 2 files."),
        ("nested.py", b"x = " + b"(" * 5000, b"nested.py: syntax error at line 1: too many"),
        ("nested.py", b"x = " + b"-" * 90_000 + b"1\n", b"nested.py: nested too deeply"),
        ("null.py", b"x = 1\0\n", b"null.py: holds NUL bytes"),
    ],
)
def test_one_odd_file_costs_no_other(folder, name, data, said):
    (folder / "ok.py").write_text(FINDING)
    (folder / name).write_bytes(data)
    found = scan(folder)
    assert b"Traceback" not in found.stderr + found.stdout
    assert said in found.stdout
    assert found.returncode in (1, 2)
    assert (found.returncode == 2) == found.stderr.startswith(b"pitstop: ")


def test_what_could_not_be_read_is_not_called_clean(folder):
    (folder / "bad.py").write_text("x = (\n")
    found = scan(folder, "bad.py")
    assert found.returncode == 2
    assert b"Nothing found in 0 files. 1 could not be read." in found.stdout
    (folder / "good.py").write_text("x = 1\n")
    found = scan(folder)
    assert found.returncode == 0
    assert b"Nothing found in 1 file. 1 could not be read." in found.stdout


@posix
def test_a_read_only_file_is_left_as_it_is_and_the_others_are_fixed(folder):
    (folder / "locked.py").write_text(FINDING)
    (folder / "locked.py").chmod(0o444)
    (folder / "open.py").write_text(FINDING)
    found = scan(folder, "--fix")
    assert found.returncode == 1
    assert b"locked.py: not fixed, since it is read-only or a link" in found.stdout
    assert (folder / "locked.py").read_text() == FINDING
    assert "device=device" in (folder / "open.py").read_text()
