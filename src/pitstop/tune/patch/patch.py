"""Patch: the file ``tuned.patch``, a minimal diff of the user's source for what was kept."""

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence
from pitstop.core.finding import Edit
from pitstop.scan.decode import encode
from pitstop.tune.checked import Changes, label
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.patch.sources import UserFile, name_in, read_files, script_of
from pitstop.tune.plan import Options, Wanted

PERMANENT = "pitstop.tune.patch.permanent"  # the package that holds ours, one per file
NO_END = "\\ No newline at end of file\n"
HEADER = """\
# Kept by `pitstop tune`. To apply it, in the folder it was made for:  git apply tuned.patch
"""

Permanent = Callable[[Sites, Options], Iterator[Edit | Left]]


@dataclass(frozen=True, slots=True)
class Patch:
    """A diff, which kept changes are in it, and for each that is not why, and what to write."""

    text: str = ""  # empty where nothing has a place; other bytes than UTF-8 as surrogates
    root: Path = Path()  # the folder that it is for
    placed: tuple[str, ...] = ()
    unplaced: tuple[tuple[str, str], ...] = ()
    edited: Mapping[str, bytes] = field(default_factory=dict)  # files as they are with it, by name


def write_patch(
    kept: Changes,
    evidence: Evidence,
    words: Sequence[str],
    here: Path,
    target: Path,
    force: bool = False,
) -> Patch:
    """Write the patch for the source of a command; no file where nothing has a place."""
    if target.exists() and not force:
        raise PitstopError(f"{target} exists already; give --force to replace it")
    patch = make_patch(kept, evidence, words, here)
    if patch.text:
        store.write_bytes(target, patch.text.encode("utf-8", "surrogateescape"))
    return patch


def make_patch(kept: Changes, evidence: Evidence, words: Sequence[str], here: Path) -> Patch:
    """The patch of a command's source as it is now; nothing is written.

    ``evidence`` is of the untouched run of this very source, ``words`` are its command, both in the
    folder ``here``.
    """
    script = script_of(words, here)
    root, files = read_files(script, evidence, here)
    name = name_in(script, root) if script else ""
    sites = Sites(files, evidence, root, here, name if name in files else "")
    placed: list[str] = []
    unplaced: list[tuple[str, str]] = []
    for wanted in kept:
        after, reasons = _place(sites, wanted)
        if after is not sites:
            placed.append(label(wanted))
        unplaced += [(label(wanted), each) for each in reasons]
        sites = after
    diff = "".join(_diff(each) for each in sites.files.values())
    text = _header(unplaced) + diff if diff else ""
    edited = {
        name: encode(each.source.text, each.encoding)
        for name, each in sites.files.items()
        if each is not files[name]
    }
    return Patch(text, root, tuple(placed), tuple(unplaced), edited)


def _place(sites: Sites, wanted: Wanted) -> tuple[Sites, list[str]]:
    """The files with a change in them, and what of it has no place."""
    permanent = _permanent(wanted.name)
    if permanent is None:
        return sites, ["it is not ours: use `pitstop run --with tuned.toml`"]
    try:
        found = list(permanent(sites, wanted.options))
        edits = [each for each in found if isinstance(each, Edit)]
        after = sites.after(edits) if edits else sites
    except (SyntaxError, ValueError):
        return sites, ["its lines are in the way of others: use `pitstop run --with tuned.toml`"]
    if not found:
        return sites, [
            "the source has it already, or the recorded step does not show where it would go"
        ]
    return after, list(dict.fromkeys(each.reason for each in found if isinstance(each, Left)))


def _permanent(name: str) -> Permanent | None:
    stem = name.replace("-", "_")
    if importlib.util.find_spec(f"{PERMANENT}.{stem}") is None:
        return None
    found: Permanent = getattr(importlib.import_module(f"{PERMANENT}.{stem}"), stem)
    return found


def _header(unplaced: Sequence[tuple[str, str]]) -> str:
    lines = [f"# Not in it: {change}: {reason}\n" for change, reason in unplaced]
    return HEADER + "".join(lines)


def _diff(file: UserFile) -> str:
    """One file's part; lines end where git ends them, whatever bytes they hold."""
    after = encode(file.source.text, file.encoding)
    if after == file.before:
        return ""
    name = file.source.path + ("\t" if " " in file.source.path else "")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _lines(file.before),
        _lines(after),
        f"a/{name}".encode(),
        f"b/{name}".encode(),
    )
    text = [line.decode("utf-8", "surrogateescape") for line in lines]
    return "".join(each if each.endswith("\n") else f"{each}\n{NO_END}" for each in text)


def _lines(data: bytes) -> list[bytes]:
    return [each + b"\n" for each in data.split(b"\n")[:-1]] + [
        each for each in data.split(b"\n")[-1:] if each
    ]
