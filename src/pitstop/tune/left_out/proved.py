"""Proved: the edits for what nobody needs, whose patched source computes what it did before."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pitstop.core.evidence import Evidence
from pitstop.core.units import milliseconds
from pitstop.tune.checked import Changes, RunError
from pitstop.tune.found import Edits, Found
from pitstop.tune.patch.patch import Patch, make_patch
from pitstop.tune.runs.fresh import Course, FreshRuns
from pitstop.tune.runs.patched import LEAST, Proof, patched_runs, prove

NO_ROOM = "the budget had no room to prove the edits: they are in no patch"


def proved_edits(
    course: Course, fresh: FreshRuns, found: Found, evidence: Evidence, words: Sequence[str]
) -> Edits:
    """All of them together, or one by one where that is refused."""
    if found.what_if is None:
        return Edits()
    here = Path.cwd()
    whole = make_patch(found.what_if.on, evidence, words, here)
    by_hand = tuple(f"{name}: by hand: {why}" for name, why in whole.unplaced)
    plain = tuple(
        each for each in found.what_if.on if make_patch((each,), evidence, words, here).text
    )
    if not plain:
        return Edits(by_hand=by_hand)
    notes: list[str] = []
    for on in [plain, *([(each,) for each in plain] if len(plain) > 1 else [])]:
        if fresh.left_s() < LEAST * fresh.costs.run_s:
            notes.append(NO_ROOM)
            break
        patch = make_patch(on, evidence, words, here)
        try:
            proof = _prove(course, fresh, found.kept, patch)
        except RunError as error:
            notes.append(f"the patched source: {error.note}")
            continue
        if proof.numbers.ok:
            return Edits(on, _said(proof, bool(found.kept)), (*by_hand, *notes))
        notes.append(f"the patched source is refused: {proof.numbers.reason}")
    return Edits(by_hand=(*by_hand, *notes))


def _prove(course: Course, fresh: FreshRuns, kept: Changes, patch: Patch) -> Proof:
    tree = course.folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    try:
        return prove(fresh, patched_runs(course, patch.root, patch.edited, tree), kept)
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _said(proof: Proof, kept: bool) -> str:
    """What the patched source brings, in words."""
    numbers = f"the patched source computes the same ({proof.numbers.reason})"
    timed = proof.timed
    if timed is None:
        return f"{numbers}; there was no room to time it"
    before, after = milliseconds(timed.before_ms), milliseconds(timed.after_ms)
    what = "with all that is kept it" if kept else "it"
    ratio = f"{timed.before_ms / timed.after_ms:.2f} times as fast"
    clear = "" if timed.verdict == "kept" else f", {timed.step.verdict}"
    return f"{numbers}, and {what} takes {after} a step instead of {before}: {ratio}{clear}"
