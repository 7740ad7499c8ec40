"""Folders: where Pitstop keeps what it can make again."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder for Pitstop; ``PITSTOP_CACHE`` overrides it. Not created here."""
    if given := os.environ.get("PITSTOP_CACHE"):
        return Path(given).expanduser().absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "pitstop"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/pitstop"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pitstop"
