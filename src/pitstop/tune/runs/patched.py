"""Patched: edits of the source, tried in a tree of their own, against the source as it is.

The tree is the project's folder again, made of links; only the files with an edit are copies. The
script runs there as it would after `git apply`. Its losses, gradient norms and steps of the
optimizers must be those of the source as it is; models may be called less often, since that is what
the edits are for.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pitstop.compare.pairs import Pairs
from pitstop.tune.checked import Changes, RunError
from pitstop.tune.guard.readings import Readings
from pitstop.tune.guard.verdict import Guarded, Untouched, guard
from pitstop.tune.runs.fresh import Course, FreshRuns
from pitstop.tune.runs.timed import Timed
from pitstop.tune.sandbox.copied_tree import Tree

LEAST = 2  # runs: the numbers of both sides
MOST_PAIRS = 4  # of fresh runs; each is cut into some blocks
LEFT_ALONE = {"__pycache__", ".git", ".pitstop"}  # of no use to the script, or not to be written to


@dataclass(frozen=True, slots=True)
class Proof:
    """What the patched source computes, and how long it takes; no time without equal numbers."""

    numbers: Guarded
    timed: Timed | None = None


def patched_runs(course: Course, root: Path, edited: Mapping[str, bytes], copy: Path) -> FreshRuns:
    """Runs of a script whose source has edits; the tree with them is made at ``copy``."""
    root, here = root.resolve(), Path.cwd().resolve()
    script = next((each for each in course.words if each.endswith(".py")), "")
    full = (here / script).resolve()
    name = full.relative_to(root).as_posix() if script and full.is_relative_to(root) else ""
    make_tree(root, edited, name, copy)
    begins = copy / here.relative_to(root) if here.is_relative_to(root) else here
    tree = Tree(str(root), str(copy.resolve()), begins)
    words = [str(root / name) if name and each == script else each for each in course.words]
    folder = course.folder / "patched"
    return FreshRuns(replace(course, words=tree.words(words), folder=folder, tree=tree))


def prove(untouched: FreshRuns, patched: FreshRuns, kept: Changes) -> Proof:
    """Numbers without any change; then the time of all that is kept, in the patched source."""
    guarded = _same(patched.readings(), untouched.readings())
    if not guarded.ok:
        return Proof(guarded)
    times: Pairs[float] = Pairs()
    with contextlib.suppress(RunError):
        for number in range(MOST_PAIRS):
            if untouched.left_s() < LEAST * untouched.costs.run_s:
                break
            first_patched = number % 2
            after = patched.blocks(kept) if first_patched else []
            before = untouched.blocks(())
            after = after or patched.blocks(kept)
            times = Pairs((*times.before, *before), (*times.after, *after))
            if number and FreshRuns.compared(times).step.verdict != "inconclusive":
                break
    return Proof(guarded, FreshRuns.compared(times) if times.before else None)


def _same(ours: Readings, null: Readings) -> Guarded:
    """Whether what is learned is the same; models may be called less often, and a log say less."""
    lines = null.lines
    both = [replace(each, outputs=(), calls=None, lines=lines) for each in (ours, null)]
    return guard("exact", both[0], Untouched(both[1]))


def make_tree(root: Path, edited: Mapping[str, bytes], script: str, tree: Path) -> None:
    """The folder again: edited files and the script itself are files, all others are links."""
    copies = {*edited, script} - {""}
    folders = {parent for name in copies for parent in Path(name).parents}
    for folder in sorted(folders, key=lambda each: len(each.parts)):
        (tree / folder).mkdir(parents=True, exist_ok=True)
        for entry in sorted((root / folder).iterdir()):
            name = folder / entry.name
            if name in folders or name.as_posix() in copies or entry.name in LEFT_ALONE:
                continue
            (tree / name).symlink_to(entry.resolve())
    for copy in copies:
        content = edited.get(copy)
        (tree / copy).write_bytes((root / copy).read_bytes() if content is None else content)
