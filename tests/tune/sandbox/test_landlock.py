"""What is said where the kernel cannot refuse writes, and that it does where it can."""

import errno
import os
import re
import subprocess
import sys

import pytest

from pitstop.tune.sandbox import landlock

HERE = pytest.mark.skipif(bool(landlock.missing()), reason=landlock.missing())
SHUT_IN = """
import os, sys
for number, statement in enumerate(sys.argv[1:]):
    try:
        exec(statement)
        print("done")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ((-1, errno.ENOSYS), r"this kernel \(.+\) has no Landlock of Linux 5\.19 or newer"),
        ((1, 0), r"this kernel \(.+\) has no Landlock of Linux 5\.19 or newer"),
        ((-1, errno.EPERM), "this container forbids Landlock"),
        ((-1, errno.EOPNOTSUPP), "Landlock is switched off in this kernel"),
        ((2, 0), "^$"),
    ],
)
def test_why_writes_cannot_be_refused_is_said(monkeypatch, version, why):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(landlock, "_version", lambda: version)
    assert re.search(why, landlock.missing())


def test_other_systems_have_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert landlock.missing() == "Darwin has no Landlock"


@HERE
def test_only_what_is_allowed_can_be_written(tmp_path):
    (tmp_path / "mine").mkdir()
    for name in ("one-file", "theirs"):
        (tmp_path / name).write_text("as before")
    allowed = [
        "open('mine/a', 'w').write('x'); os.rename('mine/a', 'mine/b'); os.truncate('mine/b', 0)",
        "os.makedirs('mine/deep/er'); os.rename('mine/b', 'mine/deep/er/b'); os.mkfifo('mine/p')",
        "open('one-file', 'w').write('x'); open('theirs').read(); os.listdir()",
        "open('/dev/null', 'w').write('x'); open('/dev/shm/pitstop-test', 'w')",
        "os.remove('/dev/shm/pitstop-test'); open(f'/proc/{os.getpid()}/comm', 'w').write('x')",
    ]
    refused = [
        "open('theirs', 'r+')",
        "open('new', 'w')",
        "os.truncate('theirs', 0)",
        "os.remove('theirs')",
        "os.rename('theirs', 'mine/theirs')",
        "os.rename('mine/deep', 'deep')",
        "os.mkdir('folder')",
        "os.symlink('theirs', 'link')",
        "os.mkfifo('pipe')",
        "os.remove('one-file')",
    ]
    mine = [tmp_path / each for each in ("mine", "one-file", "not-there")]
    words = [*landlock.wrapper_command(mine), sys.executable, "-c", SHUT_IN, *allowed, *refused]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = ran.stdout.splitlines()
    assert printed[: len(allowed)] == ["done"] * len(allowed)
    assert set(printed[len(allowed) :]) <= {os.strerror(errno.EACCES), os.strerror(errno.EXDEV)}
    assert len(printed) == len(allowed) + len(refused)
    assert (tmp_path / "theirs").read_text() == "as before"
