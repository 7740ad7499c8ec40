"""Session: what was asked of one search."""

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.private import own_folder
from pitstop.core.secrets import masked_words
from pitstop.tune.change import Goal

FILE = "session.json"
BUDGET_MINUTES = 5.0  # a person waits so long; scripts that take minutes to start need more


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
