"""Runs: the recordings below ``.pitstop/runs``, newest last."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

import msgspec

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.reading import read_regular
from pitstop.core.secrets import masked_words

RUNS = Path(".pitstop") / "runs"
LARGEST_ABOUT_BYTES = 65_536  # a few lines; what is larger is not ours
NEAREST = 3  # recordings named when none or several match


@dataclass(frozen=True, slots=True)
class Run:
    """What was recorded, and how it ended; the file ``run.json`` of a recording."""

    command: tuple[str, ...]
    started: str  # local time, "2026-11-15 04:25:30"
    warmup: int
    exit_code: int | None = None  # null while it runs, or when we were killed with it

    @property
    def name(self) -> str:
        """The script without its path, or the module."""
        words = self.command[1:]
        script = next((Path(word).name for word in words if word.endswith(".py")), "")
        modules = [after for word, after in pairwise(words) if word == "-m"]
        return script or (modules[-1] if modules else "the run")

    @property
    def typed(self) -> str:
        """The script and its arguments, to be typed behind another command of ours."""
        words = self.command[1:] if self.command and "python" in self.command[0] else self.command
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class About:
    """What a run ran on, as the profiled process told it in ``about.json``; empty: not known."""

    system: str = ""  # "Linux x86_64"
    cores: int = 0  # those it could use
    gpu: str = ""
    python: str = ""
    torch: str = ""


def begun(command: Sequence[str], warmup: int) -> Run:
    """The description of a run that begins now; secrets in its command are not kept."""
    return Run(masked_words(command), now(), warmup)


def now() -> str:
    """The local time as runs carry it."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def all_runs(root: Path) -> list[Path]:
    """Folders of the recordings started in ``root``, oldest first."""
    folder = root / RUNS
    return sorted(path.parent for path in folder.glob("*/run.json") if path.is_file())


def find(root: Path, name: str) -> Path:
    """The recording with this ID, path or unique beginning of an ID; ``last`` is the newest."""
    runs = all_runs(root)
    if name == "last" and runs:
        return runs[-1]
    if (Path(name) / "run.json").is_file():
        return Path(name)
    found = [run for run in runs if name and run.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    problem = "matches several recordings" if found else "is no recording"
    near = [run.name for run in found] or get_close_matches(name, [run.name for run in runs])
    hint = f"did you mean {' or '.join(near[:NEAREST])}?" if near else "`pitstop runs` lists them"
    raise PitstopError(f"{name!r} {problem}: {hint}")


def about(folder: Path) -> About:
    """What a run ran on; an older recording, or one without a step, does not tell."""
    try:
        return msgspec.json.decode(
            read_regular(folder / "about.json", LARGEST_ABOUT_BYTES), type=About
        )
    except (OSError, msgspec.DecodeError):
        return About()


def load(folder: Path) -> Run:
    """The description of one recording."""
    return store.load(folder / "run.json", Run)
