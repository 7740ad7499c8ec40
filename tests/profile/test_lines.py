"""Whose code a file is: the user's, a library's, or torch's and ours."""

from pathlib import Path

import pytest

import pitstop
from pitstop.profile.source.lines import origin_of, user_line

torch = pytest.importorskip("torch")
PITSTOP = Path(pitstop.__file__).parent


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        (torch.nn.__file__, "hidden"),
        ("/home/me/torch/train.py", "user"),
        (pytest.__file__, "library"),
        ("/home/me/.local/lib/python3.11/site-packages/rich/console.py", "library"),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "library"),
        ("/home/me/packages/train.py", "user"),
        (str(PITSTOP / "profile" / "record" / "recorder.py"), "hidden"),
        (str(PITSTOP / "tune" / "changes" / "loader.py"), "hidden"),
        (str(PITSTOP / "parts" / "tiled_vae.py"), "library"),
        (str(PITSTOP / "workloads" / "tiled_vae" / "slow.py"), "user"),
        (str(PITSTOP / "demo" / "train.py"), "user"),
        ("<frozen runpy>", "hidden"),
    ],
)
def test_a_file_is_of(path, origin):
    assert origin_of(path) == origin


def test_bytecode_without_lines_is_where_its_function_begins(tmp_path):
    """As Dynamo writes it: such a frame says that its line is none."""
    path = tmp_path / "train.py"
    path.write_text("import sys\n\ndef step():\n    return sys._getframe()\n")
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    step = names["step"]
    step.__code__ = step.__code__.replace(co_linetable=b"")
    assert step().f_lineno is None
    assert user_line(step()) == (str(path), 3, "step")
