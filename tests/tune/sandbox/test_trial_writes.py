"""Scripts that would overwrite or delete the user's files, run as trials: all files stay."""

import sys
import textwrap

import pytest

from pitstop.tune.plan import Plan
from pitstop.tune.runs.trials import Settings, run_trial
from pitstop.tune.sandbox import landlock

pytestmark = [
    pytest.mark.slow,  # real processes by the dozen: `make test-slow`
    pytest.mark.skipif(bool(landlock.missing()), reason=landlock.missing()),
]
FILES = ("model.pt", "notes.txt", "data/a.txt", "data/b.txt")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of the user's; whatever runs in it, its files are the same afterwards."""
    folder = tmp_path / "project"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the user's {name}" * 100)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = listing(folder)
    yield folder
    assert listing(folder) == before


def listing(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mode) for path in paths}


def trial(project, text, first=True):
    script = project.parent / "train.py"
    script.write_text(textwrap.dedent(text))
    words = [sys.executable, str(script)]
    settings = Settings(lists_writes=first)
    return run_trial(words, Plan(), project.parent / "trial", settings)


def test_a_command_that_is_no_python_is_shut_in_as_well(project):
    words = ["bash", "-c", "rm -rf data; echo x > notes.txt"]
    run = run_trial(words, Plan(), project.parent / "trial")
    assert run.ending.exit_code
    assert run.ending.refused == "notes.txt"


def outcomes(project, *statements):
    """Each statement in a script of its own, as it were: its name, and how it ended."""
    text = "import os, subprocess, sys, torch\n"
    for number, statement in enumerate(statements):
        body = textwrap.indent(textwrap.dedent(statement).strip(), "    ")
        text += f"try:\n{body}\n    print({number}, 'done')\n"
        text += f"except Exception as error:\n    print({number}, type(error).__name__, error)\n"
    run = trial(project, text)
    assert not run.ending.exit_code, run.ending
    return run, run.recording.printed()


def test_what_can_be_redirected_runs_through(project):
    """Each of these was written in earnest before, in the first run or in all of them."""
    done = [
        "import bz2; bz2.open('model.pt', 'wb').write(b'x'); assert bz2.open('model.pt').read()",
        "import lzma; lzma.open('notes.txt', 'wb').write(b'x'); assert lzma.open('notes.txt')",
        """
        import io
        io.FileIO("data/a.txt", "w").write(b"x")
        assert open("data/a.txt").read() == "x"
        """,
        """
        import _io
        _io.open("data/b.txt", "w").write("x")
        assert open("data/b.txt").read() == "x"
        """,
        "torch.from_file('model.pt', shared=True, size=5).fill_(7)",
        "torch.from_file('new', shared=True, size=5).fill_(7); assert os.path.exists('new')",
        """
        import sqlite3
        for name in ("file:new.db", f"file:{os.getcwd()}/other.db?mode=rwc"):
            base = sqlite3.connect(name, uri=True)
            base.execute("create table t (x)")
            base.commit()
        assert os.path.exists("new.db")
        """,
        """
        import sqlite3.dbapi2
        base = sqlite3.dbapi2.connect("third.db")
        base.execute("pragma journal_mode=wal")
        base.execute("create table t (x)")
        """,
        """
        with torch.autograd.profiler.profile(use_kineto=True) as seen:
            torch.ones(2) + 1
        seen.export_chrome_trace("notes.txt")
        """,
        """
        with torch.profiler.profile() as seen:
            torch.ones(2) + 1
        seen.export_chrome_trace("trace.json")
        assert os.path.exists("trace.json")
        """,
        """
        there = os.open("model.pt", os.O_WRONLY | os.O_TRUNC)
        os.write(there, b"new")
        os.close(there)
        assert open("model.pt").read() == "new"
        """,
        """
        import torch.distributed as several
        where = f"file://{os.getcwd()}/meeting"
        several.init_process_group("gloo", init_method=where, rank=0, world_size=1)
        several.destroy_process_group()
        """,
        """
        class Noting(__import__("io").FileIO):
            pass
        assert issubclass(Noting, __import__("io").FileIO)
        """,
    ]
    run, printed = outcomes(project, *done)
    assert printed == [f"{number} done" for number in range(len(done))]
    assert run.written.refused == ()
    assert str(project / "model.pt") in run.written.redirected


def test_what_only_the_kernel_holds_back_is_told(project):
    run, printed = outcomes(
        project,
        "assert os.system('rm -rf data model.pt') != 0",
        "assert os.system('echo lost > notes.txt') != 0",
        "assert subprocess.run('mv notes.txt /tmp; truncate -s0 notes.txt', shell=True).returncode",
        "assert subprocess.run(['cp', 'model.pt', 'data/b.txt']).returncode",
    )
    assert printed == [f"{number} done" for number in range(4)]
    assert {"data/a.txt", "model.pt", "notes.txt"} <= set(run.written.refused)


@pytest.mark.parametrize(
    ("statement", "path"),
    [
        ("import os; os.system('rm data/*; mkdir out'); open('out/a', 'w')", "out"),
        ("import posix; posix.unlink('model.pt')", "model.pt"),
        ("import subprocess; subprocess.run(['rm', '-r', 'data'], check=True)", "data/"),
    ],
)
def test_an_error_says_which_write_was_refused_and_what_to_give(project, statement, path):
    run = trial(project, statement, first=False)
    assert run.ending.error.startswith(f"Pitstop refused a write to {path}")
    assert "give --in-place" in run.ending.error
    assert "\n" not in run.ending.error
    assert run.ending.refused.startswith(path)


def test_unlucky_writes_of_all_kinds_leave_the_files_alone(project):
    """Archives, maps, moves, links, logs, databases, workers: each runs through, redirected."""
    done = [
        "import numpy; numpy.memmap('model.pt', mode='r+', dtype='u1')[:] = 0",
        """
        import mmap
        with open("model.pt", "r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
            mapped[:3] = b"xyz"
        assert open("model.pt", "rb").read(3) == b"xyz"
        """,
        """
        import zipfile
        zipfile.ZipFile("archive.zip", "w").write("notes.txt")
        zipfile.ZipFile("archive.zip", "a").writestr("more", "x")
        zipfile.ZipFile("archive.zip").extractall("data")
        """,
        """
        import tarfile
        with tarfile.open("archive.tar", "w") as archive:
            archive.add("data")
        with tarfile.open("archive.tar") as archive:
            archive.extractall(".", filter="data")
        """,
        """
        import shutil
        shutil.move("data", "moved")
        shutil.copytree("moved", "copied")
        shutil.rmtree("moved")
        assert not os.path.exists("data") and os.path.exists("copied/a.txt")
        """,
        """
        from pathlib import Path
        Path("notes.txt").rename("other.txt").unlink()
        assert not Path("notes.txt").exists()
        """,
        "os.rename('copied', '/tmp/sandbox-x'); assert os.path.exists('/tmp/sandbox-x')",
        """
        os.symlink(os.path.abspath("model.pt"), "link.pt")
        open("link.pt", "wb").write(b"x")
        assert os.path.getsize("model.pt") == 1
        """,
        "os.link('model.pt', 'hard.pt'); open('hard.pt', 'w').write('changed')",
        "os.truncate('model.pt', 0); os.chmod('model.pt', 0o600); os.utime('model.pt', (0, 0))",
        """
        torch.save({"weight": 1}, "model.pt")
        torch.save({"weight": 2}, "model.pt", _use_new_zipfile_serialization=False)
        assert torch.load("model.pt")["weight"] == 2
        """,
        """
        import torch.distributed.checkpoint as parts
        parts.save({"weight": torch.ones(2)}, checkpoint_id="parts")
        parts.load({"weight": torch.zeros(2)}, checkpoint_id="parts")
        """,
        """
        import logging.handlers
        handler = logging.handlers.RotatingFileHandler("a.log", maxBytes=9, backupCount=2)
        logging.getLogger("a").addHandler(handler)
        for _ in range(3):
            logging.getLogger("a").error("12345678")
        assert os.path.exists("a.log.1")
        """,
        """
        import tempfile
        with tempfile.NamedTemporaryFile(dir=".", delete=False) as stream:
            stream.write(b"whole")
        os.replace(stream.name, "model.pt")
        """,
        """
        import fileinput
        open("lines.txt", "w").write("a")
        for line in fileinput.input("lines.txt", inplace=True):
            sys.stdout.write(line.upper())
        assert open("lines.txt").read() == "A"
        """,
        """
        from torch.utils.data import DataLoader
        def write(items):
            open(f"worker-{items[0]}", "w").write("x")
            return items
        list(DataLoader([1, 2], num_workers=1, collate_fn=write))
        assert os.path.exists("worker-1")
        """,
    ]
    run, printed = outcomes(project, *done)
    assert printed == [f"{number} done" for number in range(len(done))]
    assert run.written.refused == ()


def test_ways_around_python_end_at_the_kernel(project):
    refused = [
        "import ctypes; assert ctypes.CDLL(None).unlink(b'model.pt') == -1",
        "import ctypes; assert ctypes.CDLL(None).truncate(b'model.pt', 0) == -1",
        """
        isolated = [sys.executable, "-I", "-c", "open('notes.txt', 'w')"]
        assert subprocess.run(isolated).returncode
        """,
        "assert subprocess.run(['rm', '-r', 'data'], env={}).returncode",
        "assert os.system(f'ln -s {os.getcwd()} $TMPDIR/out; rm $TMPDIR/out/model.pt')",
        "assert os.system(f'ln {os.getcwd()}/model.pt $TMPDIR/hard')",
        "assert os.system('touch /tmp/pitstop-touched ~/pitstop-touched')",
        """
        here = os.open(".", os.O_RDONLY)
        try:
            os.unlink("model.pt", dir_fd=here)
        except PermissionError:
            here = None
        assert here is None
        """,
        """
        if not (child := os.fork()):
            os.setsid()
            os.fork() or os.system("rm -rf data")
            os._exit(0)
        os.waitpid(child, 0)
        """,
        "os.waitpid(os.posix_spawn('/bin/rm', ['rm', '-rf', 'data'], os.environ), 0)",
        """
        import sqlite3
        try:
            sqlite3.connect(":memory:").execute(f"attach database '{os.getcwd()}/a.db' as a")
        except sqlite3.OperationalError as error:
            assert "unable to open" in str(error)
        """,
    ]
    _, printed = outcomes(project, *refused)
    assert printed == [f"{number} done" for number in range(len(refused))]
