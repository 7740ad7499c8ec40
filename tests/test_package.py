"""What is installed: git and the builder of the wheel leave out what .gitignore names."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "pitstop"
ALONE = {PACKAGE / "profile" / "site"}  # a folder in front of PYTHONPATH, not a room


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or not shutil.which("git"), reason="no repository to ask"
)
def test_no_file_of_the_package_is_ignored():
    files = [str(path) for path in PACKAGE.rglob("*.*") if "__pycache__" not in path.parts]
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input="\n".join(files),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stdout == ""


def test_every_room_is_a_package():
    rooms = {path.parent for path in PACKAGE.rglob("*.py")} - ALONE
    assert [room for room in rooms if not (room / "__init__.py").exists()] == []
