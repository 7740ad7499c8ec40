"""Reached: how far Pitstop came in a run, for one of which nothing was seen."""

from pathlib import Path

from pitstop.core.private import private
from pitstop.profile.hooks.attempt import attempt

FILE = "reached.txt"  # a word a line, as the run goes
LAUNCHED, PYTHON, TORCH = "launched", "python", "torch"


def begin(folder: Path) -> None:
    """Write down that a run begins; an error where nothing can be written, as on a full disk."""
    _append(folder / FILE, LAUNCHED)


def reach(folder: str, what: str) -> None:
    """Write down that the script's own Python runs, or that it has imported torch."""
    attempt(_append, Path(folder, FILE), what)


def why_unseen(folder: Path) -> str:
    """Why nothing of a run was seen; empty where its torch was."""
    path = folder / FILE
    reached = path.read_text().split() if path.is_file() else []
    if TORCH in reached:
        return ""
    if PYTHON in reached:
        return "the process that was started has not imported torch"
    return "no Python was started that Pitstop could enter; its options -I, -E and -S keep it out"


def _append(path: Path, what: str) -> None:
    with open(path, "a", encoding="utf-8", opener=private) as stream:
        stream.write(f"{what}\n")
