"""Program: a recipe's public program in a folder of its own, with our data and stand-ins."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from made import MADE
from recipe import Edit, Recipe

GITHUB = "https://github.com/"
SOURCES = {".py", ".json", ".yaml", ".yml", ".toml", ".cfg", ".txt"}  # no pictures, no weights


def export(recipe: Recipe, clones: Path, folder: Path, gpu: bool = False) -> None:
    """The program as it was at that commit, with our stand-ins."""
    for path, text in _sources(recipe, _clone(recipe, clones)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    (folder / recipe.folder).mkdir(parents=True, exist_ok=True)
    for edit in recipe.prepare:
        if not (gpu and edit.only_cpu):
            apply(edit, folder / recipe.folder)


def furnish(recipe: Recipe, folder: Path) -> None:
    """Make the program's data."""
    for name, at in recipe.data:
        MADE[name](folder / recipe.folder / at)


def changed(recipe: Recipe, before: Path) -> Path:
    """A copy of the program with the change of its finding made by hand."""
    after = before.with_name("after")
    shutil.copytree(before, after)
    for edit in recipe.change:
        apply(edit, after / recipe.folder)
    return after


def apply(edit: Edit, folder: Path) -> None:
    """Make one edit; what it replaces must be there, and once where nothing else is said."""
    path = folder / edit.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    there = text.count(edit.find)
    if edit.find and (there == 0 or (there > 1 and not edit.everywhere)):
        raise SystemExit(f"{edit.file}: {edit.find!r} is there {there} times")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = text.replace(edit.find, edit.replace) if edit.find else edit.replace + text
    path.write_text(new, encoding="utf-8")


def _sources(recipe: Recipe, clone: Path) -> Iterator[tuple[str, bytes]]:
    """The files of source that the commit has in the recipe's folders."""
    git = ["git", "--git-dir", str(clone)]
    folders = [] if recipe.folder == "." else [recipe.folder, *recipe.also]
    words = [*git, "ls-tree", "-r", "-z", recipe.commit, "--", *folders]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    for entry in told.split("\0")[:-1]:
        about, _, path = entry.partition("\t")
        if PurePosixPath(path).suffix in SOURCES:
            words = [*git, "cat-file", "blob", about.split()[2]]
            found = subprocess.run(words, check=False, capture_output=True)
            if found.returncode == 0:  # a partial clone lacks the largest
                yield path, found.stdout


def _clone(recipe: Recipe, clones: Path) -> Path:
    """The git folder of the repository's clone, which is made where there is none."""
    home = clones / recipe.repository.replace("/", "+")
    known = [home / "repo", home / ".git", home]
    found = next((each for each in known if (each / "objects").exists()), None)
    if found:
        return found
    address = f"{GITHUB}{recipe.repository}"
    subprocess.run(["git", "clone", "--bare", "--quiet", address, str(home)], check=True)
    return home
