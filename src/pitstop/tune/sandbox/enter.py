"""Enter: what the process of a trial does before the script's first line, and its children do.

This is imported by the script's own interpreter: it needs nothing that is not in Python itself.
"""

import json
import os
from pathlib import Path

from pitstop.profile.options import FIRST, SITE
from pitstop.tune.sandbox import landlock
from pitstop.tune.sandbox.audit import note_writing
from pitstop.tune.sandbox.caches import caches
from pitstop.tune.sandbox.redirect import redirect

BEGIN = "pitstop.tune.sandbox.enter:begin"
PIPES = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"  # noqa: S108 through which a GPU is shared


def begin(argument: str) -> None:
    """Keep this process, and those it starts, from writing to the user's files."""
    wanted = json.loads(argument)
    folder, alone = Path(wanted["folder"]), tuple(map(Path, wanted["alone"]))
    if wanted["fence"]:
        landlock.restrict([folder, *alone, *caches(), Path(os.environ.get(*PIPES))])
    redirect(folder, alone)
    if wanted["lists"]:
        note_writing(folder, alone)
    inherited = json.dumps({**wanted, "fence": False})  # the kernel's part is for ever
    os.environ[FIRST] = f"{BEGIN} {inherited}"
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if str(SITE) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), *paths])
