import os
import sys
from pathlib import Path

import pytest

from pitstop.core.reading import read_regular

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices are POSIX matters")


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"x\r\n" * 100)
    assert read_regular(path, 300) == b"x\r\n" * 100
    with pytest.raises(OSError, match=r"larger than 0\.000299 MB"):
        read_regular(path, 299)


@posix
def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe", 100)


@posix
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused_also_through_a_link(tmp_path, device):
    (tmp_path / "link").symlink_to(device)
    for path in (Path(device), tmp_path / "link"):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path, 100)


def test_a_folder_and_a_file_that_is_not_there_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError):  # noqa: PT011 each system has words of its own
            read_regular(path, 100)
