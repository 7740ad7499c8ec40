"""Whose code a file is: the user's, a library's, or torch's and ours."""

from pathlib import Path

import pytest

import pitstop
from pitstop.profile.lines import origin_of

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
        (str(PITSTOP / "profile" / "recorder.py"), "hidden"),
        (str(PITSTOP / "tune" / "changes" / "loader.py"), "hidden"),
        (str(PITSTOP / "parts" / "tiled_vae.py"), "library"),
        (str(PITSTOP / "workloads" / "tiled_vae" / "slow.py"), "user"),
        ("<frozen runpy>", "hidden"),
    ],
)
def test_a_file_is_of(path, origin):
    assert origin_of(path) == origin
