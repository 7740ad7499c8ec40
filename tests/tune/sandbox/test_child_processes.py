import os
import subprocess

from pitstop.tune.sandbox import child_processes


def test_only_dead_members_of_the_family_lose_their_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(child_processes, "SHARED_MEMORY", tmp_path)
    dead = subprocess.Popen(["true"])
    dead.wait()
    for pid in (dead.pid, os.getpid(), dead.pid + 1_000_000):
        (tmp_path / f"torch_{pid}_1_0").touch()
    child_processes.clean_shared_memory({dead.pid, os.getpid()})
    assert not (tmp_path / f"torch_{dead.pid}_1_0").exists()
    assert len(list(tmp_path.iterdir())) == 2
