"""Enter: what the process of a trial does before the script's first line, and its children do.

This is imported by the script's own interpreter: it needs nothing that is not in Python itself.
"""

import json
import os
from pathlib import Path

from pitstop.profile.options import FIRST, SITE
from pitstop.tune.sandbox.audit import note_writing
from pitstop.tune.sandbox.redirect import redirect

BEGIN = "pitstop.tune.sandbox.enter:begin"


def begin(argument: str) -> None:
    """Redirect writing in this process, and in those of Python that it starts."""
    wanted = json.loads(argument)
    folder, alone = Path(wanted["folder"]), tuple(map(Path, wanted["alone"]))
    redirect(folder, alone)
    if wanted["lists"]:
        note_writing(folder, alone)
    os.environ[FIRST] = f"{BEGIN} {argument}"
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if str(SITE) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), *paths])
