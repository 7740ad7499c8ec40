import glob
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pitstop.tune.sandbox.overlay import Overlay
from pitstop.tune.sandbox.redirect import redirect

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of the user's with a log and a checkpoint; all writing in it is redirected."""
    folder = tmp_path / "home"
    (folder / "old").mkdir(parents=True)
    (folder / "log.txt").write_text("before\n")
    (folder / "old" / "step-1.pt").write_bytes(b"1")
    monkeypatch.chdir(folder)
    undo = redirect(tmp_path / "scratch")
    yield folder
    os.chdir(folder)
    undo()
    assert sorted(path.name for path in folder.rglob("*")) == ["log.txt", "old", "step-1.pt"]
    assert (folder / "log.txt").read_text() == "before\n"


def test_writes_are_seen_by_the_script_and_by_nobody_else(home, tmp_path):
    with open("log.txt", "a") as stream:
        stream.write("after\n")
    assert Path("log.txt").read_text() == "before\nafter\n"
    assert Overlay(tmp_path / "scratch").written() == [str(home / "log.txt")]


def test_folders_look_as_if_written_to(home):
    os.makedirs("runs/1", exist_ok=True)
    Path("runs/1/event").write_text("")
    assert sorted(os.listdir()) == ["log.txt", "old", "runs"]
    assert glob.glob("**/event", recursive=True) == ["runs/1/event"]
    assert [str(path) for path in Path().rglob("event")] == ["runs/1/event"]
    assert [*Path().glob("runs/*/event")] == [*Path().glob("*/1/event")] == [Path("runs/1/event")]
    assert [entry.path for entry in os.scandir("runs") if entry.is_dir()] == ["runs/1"]


def test_what_is_deleted_is_gone_for_the_script(home, tmp_path):
    os.remove("old/step-1.pt")
    assert not os.path.exists("old/step-1.pt")
    assert os.listdir("old") == []
    with pytest.raises(FileNotFoundError):
        open("old/step-1.pt")
    with pytest.raises(FileNotFoundError):
        os.unlink("old/step-1.pt")
    assert Overlay(tmp_path / "scratch").deleted() == [str(home / "old" / "step-1.pt")]


def test_a_folder_that_is_made_anew_is_empty(home):
    shutil.rmtree("old")
    assert not Path("old").exists()
    Path("old").mkdir()
    assert os.listdir("old") == []
    assert not os.path.exists("old/step-1.pt")


def test_renaming_moves_the_users_files_only_in_appearance(home):
    os.rename("old", "older")
    Path("log.txt").replace("log.1")
    assert sorted(os.listdir()) == ["log.1", "older"]
    assert Path("older/step-1.pt").read_bytes() == b"1"
    assert Path("log.1").read_text() == "before\n"


def test_a_link_to_a_folder_of_the_users_is_no_way_into_it(home):
    os.symlink("old", "latest")
    assert Path("latest/step-1.pt").read_bytes() == b"1"
    Path("latest/step-2.pt").write_bytes(b"2")
    assert sorted(os.listdir("latest")) == ["step-1.pt", "step-2.pt"]
    os.remove("latest/step-1.pt")
    os.symlink(home / "log.txt", "log", False)  # as Path.symlink_to has it
    Path("log").write_text("through a link")


def test_mistakes_fail_as_ever(home):
    with pytest.raises(FileExistsError):
        os.mkdir("old")
    with pytest.raises(FileExistsError):
        open("log.txt", "x")
    with pytest.raises(FileNotFoundError):
        open("nowhere/file", "w")
    with pytest.raises(IsADirectoryError):
        open("old", "w")
    with pytest.raises(OSError, match="not empty"):
        os.rmdir("old")


def test_one_can_go_into_a_new_folder(home):
    os.makedirs("outputs/today")
    os.chdir("outputs/today")
    Path("config").write_text("")
    assert Path.cwd() == home / "outputs" / "today"
    assert os.path.exists("../../old/step-1.pt")
    assert Path("config").resolve() == home / "outputs" / "today" / "config"


def test_files_written_beside_and_renamed_into_place(home):
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as stream:
        stream.write("whole")
    os.replace(stream.name, "log.txt")
    assert Path("log.txt").read_text() == "whole"
    assert shutil.copytree("old", "copy") == "copy"
    assert Path("copy/step-1.pt").exists()


def test_what_is_left_alone_is_left_alone(tmp_path):
    (tmp_path / "cache").mkdir()
    undo = redirect(tmp_path / "scratch", (tmp_path / "cache",))
    try:
        (tmp_path / "cache" / "model").write_text("kept")
        with open(os.devnull, "w") as stream:
            stream.write("nothing")
    finally:
        undo()
    assert (tmp_path / "cache" / "model").read_text() == "kept"


def test_libraries_that_write_in_other_languages_are_redirected(home):
    import torch
    from safetensors.torch import load_file, save_file
    from torch.utils.tensorboard import SummaryWriter

    torch.save({"weight": torch.ones(2)}, "model.pt")
    assert torch.load("model.pt")["weight"].sum() == 2
    assert torch.load(Path("model.pt"), mmap=True)["weight"].sum() == 2
    torch.jit.script(torch.nn.Linear(2, 2)).save("model.ts")
    assert torch.jit.load("model.ts")(torch.ones(1, 2)).shape == (1, 2)
    save_file({"weight": torch.ones(2)}, "model.safetensors")
    assert load_file("model.safetensors")["weight"].sum() == 2
    with SummaryWriter("runs/a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    assert len(os.listdir("runs/a")) == 1


def test_python_is_as_before_when_it_is_over(tmp_path):
    import io

    import torch

    before = open, io.open, os.stat, os.open, torch.load, torch._C.PyTorchFileWriter
    support = set(os.supports_dir_fd)
    redirect(tmp_path / "scratch")()
    assert before == (open, io.open, os.stat, os.open, torch.load, torch._C.PyTorchFileWriter)
    assert os.supports_dir_fd == support
