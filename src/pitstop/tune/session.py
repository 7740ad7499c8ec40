"""Session: what was asked of one search, kept with its runs so that it can be resumed."""

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.private import own_folder
from pitstop.core.secrets import is_masked, masked_words
from pitstop.core.units import count
from pitstop.tune.change import Goal

SESSIONS = Path(".pitstop") / "tune"
FILE = "session.json"
SOURCES = "sources.json"
WRITTEN = "written"  # copies of the results, as they were written
BUDGET_MINUTES = 30.0  # a coffee; ten candidates of a script that starts in seconds have room


@dataclass(frozen=True, slots=True)
class Session:
    """The command and the options of one search."""

    words: tuple[str, ...]  # the whole command line, Python included
    typed: tuple[str, ...]  # the script and its arguments, as they were typed
    goal: Goal = "time"
    steps: int | None = None
    budget_minutes: float = BUDGET_MINUTES
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()  # patterns
    lower_better: tuple[str, ...] = ()
    vary: str = ""
    training_changes: bool = False
    in_place: bool = False

    @property
    def name(self) -> str:
        """The script without its path, or the module."""
        words = [word for word in self.typed if word != "-m"]
        return Path(words[0]).name if words else "the script"


@dataclass(frozen=True, slots=True)
class Sources:
    """The files that were run, by name, and a checksum of each."""

    files: dict[str, str]


def begin(root: Path, session: Session) -> Path:
    """A new folder for a search below ``root``, named after time and script."""
    stem = re.sub(r"[^\w.-]", "-", session.name.removesuffix(".py"))
    try:
        folder = own_folder(root, "tune", f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}")
    except OSError as error:
        raise PitstopError(
            f"{error.filename}: {error.strerror}; a search needs a folder to write to"
        ) from None
    words, typed = masked_words(session.words), masked_words(session.typed)
    store.save(folder / FILE, replace(session, words=words, typed=typed))
    return folder


def find(root: Path, name: str) -> tuple[Path, Session]:
    """The search with this ID, or the beginning of one; ``last`` is the newest."""
    known = sorted(path.parent for path in (root / SESSIONS).glob(f"*/{FILE}"))
    found = known[-1:] if name == "last" else [each for each in known if each.name.startswith(name)]
    if len(found) != 1:
        problem = "matches several searches" if found else "is no search that was begun here"
        hint = f": choose from {', '.join(each.name for each in (found or known)[-3:])}"
        raise PitstopError(f"{name!r} {problem}{hint if known else ''}")
    return found[0], store.load(found[0] / FILE, Session)


def typed_again(
    asked: Session, folder: Path, words: Sequence[str], typed: Sequence[str]
) -> Session:
    """The session with its command as it was typed now, which brings the secrets that it lacks.

    Without a command it is the one that was kept, if nothing is missing in it.
    """
    if not typed:
        if is_masked(asked.words):
            raise PitstopError(
                "what is secret in the command was not kept: give it again, as in "
                f"pitstop tune --resume {folder.name} {shlex.join(asked.typed)}"
            )
        return asked
    if masked_words(typed) != asked.typed:
        raise PitstopError(
            f"this search is of {shlex.join(asked.typed)}: leave --resume away to begin another one"
        )
    return replace(asked, words=tuple(words), typed=tuple(typed))


def check_source(folder: Path, files: dict[str, str]) -> None:
    """What was measured must be of the source as it is now."""
    path = folder / SOURCES
    if not path.exists():
        store.save(path, Sources(files))
    before = store.load(path, Sources).files
    if changed := sorted({name for name, _ in before.items() ^ files.items()}):
        what = changed[0] if len(changed) == 1 else count(len(changed), "file")
        raise PitstopError(
            f"{what} changed since this search began, so what it knows is of another script: begin "
            "a new one, without --resume"
        )


def remember(folder: Path, result: Path) -> None:
    """Keep a copy of what the search has written for the user, if it has."""
    copy = folder / WRITTEN / result.name
    if result.exists():
        store.write_bytes(copy, result.read_bytes(), private=True)
    else:
        copy.unlink(missing_ok=True)


def wrote(folder: Path, result: Path) -> bool:
    """Whether this is what the search has written, and nobody has touched it since."""
    copy = folder / WRITTEN / result.name
    return copy.exists() and copy.read_bytes() == result.read_bytes()
