"""Handout: the files that a user gets, ``tuned.toml`` while the search goes on, and the patch."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.core.machine import Machine
from pitstop.core.report import Report
from pitstop.core.secrets import masked_words
from pitstop.core.units import count
from pitstop.profile.read import runs
from pitstop.tune.checked import Changes
from pitstop.tune.found import Found, leading
from pitstop.tune.patch.patch import write_patch
from pitstop.tune.report import proved
from pitstop.tune.session import Session
from pitstop.tune.tuned import Origin, write_tuned

SHUFFLES = (
    "loader in the source: workers that live on draw less: a shuffled order differs from epoch 2"
)


class Handout:
    """The file of what is kept so far, so that it is there whatever ends the search."""

    def __init__(self, asked: Session, path: Path, profile: Report) -> None:
        machine = profile.machine or Machine()
        torch = machine.package("torch")
        gpu = machine.gpus[0].name if machine.gpus else ""
        self._origin = Origin(
            shlex.join(masked_words(asked.typed)),
            runs.now(),
            gpu or f"{machine.cpu}, {count(machine.cores, 'core')}",
            torch.version if torch else "",
        )
        self._goal = asked.goal
        self._path = path
        self._written = False
        self.problems: tuple[str, ...] = ()  # why it is not there, at the last attempt

    def write(self, found: Found) -> str:
        """Its name; empty where nothing may be handed out, and then it is not there."""
        if proved(found, self._goal):
            proof = leading(found, self._goal) if found.proof else None
            try:
                write_tuned(self._path, found.kept, proof, self._origin)
            except PitstopError as error:  # the search goes on: its report is worth more
                self.problems = (str(error),)
                return ""
            self._written, self.problems = True, ()
            return str(self._path)
        if self._written:
            self._path.unlink(missing_ok=True)
        return ""


def patched(asked: Session, tuned: Path, wanted: Changes, profile: Report) -> tuple[str, ...]:
    """What is said of the patch; no trouble with it comes between the user and the report."""
    try:
        return tuple(_diff(asked, tuned.with_suffix(".patch"), wanted, profile))
    except PitstopError as error:
        return (str(error),)


def _diff(asked: Session, target: Path, wanted: Changes, profile: Report) -> Iterator[str]:
    """Write the diff that makes it permanent; say what is in it, and what has no place there."""
    here = Path.cwd()
    patch = write_patch(wanted, profile.ranks[0], asked.words, here, target, force=True)
    if patch.text:
        apply = f"git apply {target}"
        if patch.root != here:
            apply = shlex.join(["git", "-C", str(patch.root), "apply", str(target.resolve())])
        yield f"{apply} writes into the source: {', '.join(patch.placed)}"
    if "loader" in {each.partition(" ")[0] for each in patch.placed}:
        yield SHUFFLES
    for change, why in patch.unplaced:
        in_part = (
            "is in the patch in part" if change in patch.placed else "has no place in the source"
        )
        yield f"{change} {in_part}: {why}"
