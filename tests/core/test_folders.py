from pathlib import Path

import pytest

from pitstop.core.folders import cache_folder


def test_the_environment_decides_first(monkeypatch, tmp_path):
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


@pytest.mark.parametrize(
    ("platform", "ending"),
    [("win32", "Local/pitstop"), ("darwin", "Caches/pitstop"), ("linux", ".cache/pitstop")],
)
def test_each_system_has_its_own_place(monkeypatch, platform, ending):
    for name in ("PITSTOP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    assert Path(cache_folder()).as_posix().endswith(ending)
