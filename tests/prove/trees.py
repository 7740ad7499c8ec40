"""A small repository with what repositories have: ignored data, untracked files, a submodule."""

import subprocess
from pathlib import Path

MODEL = "SCALE = 1\n"


def git(folder, *words):
    about = ("-c", "user.name=n", "-c", "user.email=n@n", "-c", "protocol.file.allow=always")
    return subprocess.run(
        ["git", *about, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def make(top, **files):
    """A repository with these files committed."""
    top.mkdir(parents=True)
    git(top, "init", "-q")
    write(top, {".gitignore": "data/\n*.ckpt\n", "model.py": MODEL, **files})
    git(top, "add", "-A")
    git(top, "commit", "-qm", "base")
    return top


def write(top, files):
    for name, text in files.items():
        path = Path(top, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
