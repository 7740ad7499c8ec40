"""Imports of a command that runs in a copy of a tree, however the tree is known to Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pitstop.tune.sandbox.copied_tree import Tree, led

FINDER = """
import sys
from importlib.util import spec_from_file_location
class Finder:  # as setuptools installs a package as editable
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "package":
            return spec_from_file_location(name, {where!r} + "/package/__init__.py")
sys.meta_path.append(Finder)
"""


@pytest.fixture
def both(tmp_path):
    """A tree, and a copy in which a file says otherwise, one is missing, and one is linked."""
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    for folder, said in ((tree, "tree"), (copy, "copy")):
        (folder / "package").mkdir(parents=True)
        (folder / "package/__init__.py").write_text(f"said = {said!r}\n")
        (folder / "package/part.py").write_text(f"said = {said!r}\n")
        (folder / "plain.py").write_text(f"said = {said!r}\n")
    (tree / "new.py").write_text("said = 'tree'\n")
    (tree / "linked").mkdir()
    (tree / "linked/library.py").write_text("said = 'linked'\n")
    (copy / "linked").symlink_to(tree / "linked")
    return tree, copy


def said(both, code, begin=""):
    tree, copy = both
    source = Path(__file__).parents[3] / "src"
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r})\n{begin}\n"
        "from pitstop.tune.sandbox.copied_tree import import_from\n"
        f"import_from({str(tree)!r}, {str(copy)!r})\n"
        f"import_from({str(tree)!r}, {str(copy)!r})\nimport json\n{code}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_whatever_an_import_finds_in_the_tree_is_taken_from_the_copy(both):
    tree, _ = both
    code = (
        f"sys.path.insert(0, {str(tree)!r})\n"  # as a script spells it out
        "import package, package.part, plain\n"
        "print(json.dumps([package.said, package.part.said, plain.said, plain.__file__]))"
    )
    *words, file = said(both, code)
    assert words == ["copy", "copy", "copy"]
    assert file == str(both[1] / "plain.py")


def test_editable_packages_are_led_to_the_copy(both):
    code = "import package, package.part\nprint(json.dumps([package.said, package.part.said]))"
    assert said(both, code, FINDER.format(where=str(both[0]))) == ["copy", "copy"]
    pth = f"sys.path.append({str(both[0])!r})"  # as a .pth file has it
    assert said(both, code, pth) == ["copy", "copy"]


def test_a_module_that_the_copy_does_not_have_is_not_there(both):
    code = (
        f"sys.path.insert(0, {str(both[0])!r})\n"
        "try:\n    import new\nexcept ImportError as error:\n    print(json.dumps(str(error)))"
    )
    assert said(both, code) == "No module named 'new' in this revision"


def test_what_is_linked_stays_what_it_is(both):
    code = (
        f"sys.path.insert(0, {str(both[0] / 'linked')!r})\n"
        "import library\nprint(json.dumps([library.said, library.__file__]))"
    )
    assert said(both, code) == ["linked", str(both[0] / "linked/library.py")]


def test_paths_of_the_command_and_of_pythonpath_are_those_of_the_copy(both, monkeypatch):
    tree, copy = both
    words = ("python", f"{tree}/plain.py", f"--config={tree}/package/part.py", "/etc/passwd", "x=1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([f"{tree}/package", "/elsewhere"]))
    found = Tree(str(tree), str(copy), copy)
    assert found.words(words) == (
        *("python", f"{copy}/plain.py", f"--config={copy}/package/part.py"),
        *("/etc/passwd", "x=1"),
    )
    assert found.environment() == {"PYTHONPATH": f"{copy}/package{os.pathsep}/elsewhere"}
    assert led(f"{tree}/linked/library.py", str(tree), str(copy)).startswith(str(tree))
