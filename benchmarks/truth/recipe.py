"""Recipe: a public program, how it is run small, and the change that its top finding asks for."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of the program's source that is replaced; a file that is not there is made."""

    file: str
    find: str
    replace: str
    everywhere: bool = False  # it may be there more than once
    only_cpu: bool = False  # makes a program for a GPU run without one


@dataclass(frozen=True, slots=True)
class Recipe:
    """One TOML file of ``recipes``. None of the program's code is kept here but what is edited."""

    name: str
    kind: str  # "autoencoder", "GAN", ...
    repository: str  # owner/name, on GitHub
    commit: str
    folder: str  # of the repository, in which the program is started
    command: str  # behind ``pitstop profile``
    ends: str = "--quick"  # how the profiled run ends; several ranks need a number of steps
    also: tuple[str, ...] = ()  # other folders and files of the repository that it needs
    on_gpu: str = ""  # likewise, larger; empty: it is not run there
    data: tuple[tuple[str, str], ...] = ()  # generators of ``made``, and where their data belongs
    prepare: tuple[Edit, ...] = ()  # stand-ins: what a download or another package would give
    finding: str = ""  # the code of the finding whose change is made; empty: there was none
    lines: tuple[
        int, ...
    ] = ()  # of those findings, where the change does not mend all of that code
    change: tuple[Edit, ...] = ()
    note: str = ""


def load(name: str) -> Recipe:
    """The recipe of this name."""
    values = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    data = tuple((each["made"], each["at"]) for each in values.pop("data", ()))
    prepare, change = (
        tuple(Edit(**each) for each in values.pop(key, ())) for key in ("prepare", "change")
    )
    also, lines = (tuple(values.pop(key, ())) for key in ("also", "lines"))
    return Recipe(
        name=name, also=also, lines=lines, data=data, prepare=prepare, change=change, **values
    )


def names() -> list[str]:
    """All recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))
