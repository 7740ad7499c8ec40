"""Enter: what the process of a trial does before the script's first line, and its children do.

This is imported by the script's own interpreter: it needs nothing that is not in Python itself.
"""

import json
import os
from pathlib import Path

from pitstop.profile.start.options import FIRST, SITE
from pitstop.tune.sandbox.audit import note_writing
from pitstop.tune.sandbox.copied_tree import import_from
from pitstop.tune.sandbox.redirect import redirect

BEGIN = "pitstop.tune.sandbox.enter:begin"


def begin(argument: str) -> None:
    """Redirect writing in this process, and in those of Python that it starts."""
    wanted = json.loads(argument)
    if wanted.get("folder"):
        _redirect(Path(wanted["folder"]), tuple(map(Path, wanted["alone"])), wanted["lists"])
    if wanted["tree"]:
        import_from(*wanted["tree"])
    os.environ[FIRST] = f"{BEGIN} {argument}"
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if str(SITE) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), *paths])


def _redirect(folder: Path, alone: tuple[Path, ...], lists: bool) -> None:
    redirect(folder, alone)
    if lists:
        note_writing(folder, alone)
