"""Git: what we ask of it. Nothing of this changes the user's files, index or references."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pitstop.core.errors import PitstopError

# Nothing is run beside git itself, and nothing is written beside the index that we name.
QUIET = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.splitIndex=false"),
    *("-c", "core.untrackedCache=false"),
)
OF_A_HOOK = {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"}  # they would lead elsewhere
SUBMODULE = "160000"  # the mode of an entry that is one
SHORT = 9  # characters of a commit's name, as people say it


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository that a folder is in."""

    top: Path

    def commit(self, revision: str) -> str:
        """The full name of a commit."""
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        found = _git(self.top, asked)
        if found.returncode:
            raise PitstopError(f"{revision}: no such revision in {self.top}; give --base REV")
        return found.stdout.decode().strip()

    def export(self, commit: str, target: Path) -> None:
        """Write all files of a commit below ``target``, with an index of our own beside it."""
        index = {"GIT_INDEX_FILE": str(target.with_suffix(".index"))}
        self._checked(("read-tree", commit), index)
        self._checked(("checkout-index", "--all", "--force", f"--prefix={target}{os.sep}"), index)

    def tracked(self) -> list[str]:
        """Paths of all that git knows of in the working tree, submodules left out."""
        known = self._entries(("ls-files", "-z", "--stage"))
        paths = (each.partition("\t") for each in known)
        return list(dict.fromkeys(path for about, _, path in paths if about[:6] != SUBMODULE))

    def submodules(self) -> list[str]:
        """Paths of the submodules."""
        known = self._entries(("ls-files", "-z", "--stage"))
        return [each.partition("\t")[2] for each in known if each.startswith(SUBMODULE)]

    def untracked(self) -> list[str]:
        """Files and whole folders that git does not know of and does not ignore."""
        return self._entries(("ls-files", "-z", "--others", "--exclude-standard", "--directory"))

    def ignored(self) -> list[str]:
        """Files and whole folders that it ignores."""
        others = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        return self._entries(others)

    def apply(self, patch: Path, target: Path) -> None:
        """Apply a patch to a tree that is no repository."""
        outside = {"GIT_CEILING_DIRECTORIES": str(target.parent)}
        found = _git(target, ("apply", str(patch.absolute())), outside)
        if found.returncode:
            raise PitstopError(f"{patch} does not apply to the base: {_said(found)}")

    def _entries(self, words: Sequence[str]) -> list[str]:
        return [os.fsdecode(each) for each in self._checked(words).split(b"\0") if each]

    def _checked(self, words: Sequence[str], more: Mapping[str, str] | None = None) -> bytes:
        found = _git(self.top, words, more)
        if found.returncode:
            raise PitstopError(f"git {words[0]}: {_said(found)}")
        return found.stdout


def repository(folder: Path) -> Repository:
    """The repository that this folder is in."""
    found = _git(folder, ("rev-parse", "--show-toplevel"))
    if found.returncode:
        raise PitstopError(
            f"{folder} is in no git working tree ({_said(found)}): "
            'compare two copies with pitstop compare "python OLD" "python NEW"'
        )
    return Repository(Path(os.fsdecode(found.stdout.rstrip(b"\n"))).resolve())


def _git(
    folder: Path, words: Sequence[str], more: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    inherited = {name: each for name, each in os.environ.items() if name not in OF_A_HOOK}
    environment = {**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(more or {})}
    try:
        return subprocess.run(
            ["git", *QUIET, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise PitstopError("git is not installed: prove needs it for the base revision") from None


def _said(found: "subprocess.CompletedProcess[bytes]") -> str:
    lines = found.stderr.decode(errors="replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else "it failed"
