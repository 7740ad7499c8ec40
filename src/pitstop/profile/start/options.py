"""Options: what the launching process tells the profiled one, through one environment variable."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pitstop.profile.start.program import runs_the_script

VARIABLE = "PITSTOP_PROFILE"
FIRST = "PITSTOP_FIRST"  # "module:function argument", called before the script, by children too
ENOUGH = "enough"  # the file of a recording that says after how many steps enough was seen
HEADSPACE = "headspace.json"  # the file of a recording that says what a perfect loader gives
SITE = Path(__file__).parents[1] / "site"  # goes in front of PYTHONPATH
CANNOT_BEGIN = 97  # exit code of a process in which something of ``also`` failed; no shell uses it

StepEnds = tuple[str, int]  # the kind of event that ends a step, and how many of them make one
UNKNOWN: StepEnds = ("", 1)


@dataclass(frozen=True, slots=True)
class Options:
    """How to record one run. Travels as JSON."""

    folder: str  # where the recording goes; absolute, since scripts change directory
    steps: int | None = None  # end the run after so many steps
    quick: bool = False  # end it as soon as enough was seen
    headspace: bool = False  # some more steps then, with batches from memory
    step_ends: StepEnds = UNKNOWN  # by an earlier run of the script
    warmup: int = 3  # first steps pay for allocation, autotuning and cold files
    baseline: int = 5  # undisturbed steps before the first inspected one
    inspect: int = 2  # steps looked at in depth
    trace: bool = False
    redact: bool = False  # leave out paths and arguments
    also: tuple[tuple[str, str], ...] = ()  # "module:function" and its argument, called first
    record: bool = True  # false: only do what ``also`` says
    pythonpath: str | None = None  # what PYTHONPATH was before we put ourselves into it

    def enter(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment for a process that is to take these options."""
        inherited = environment.get("PYTHONPATH")
        value = json.dumps(asdict(replace(self, pythonpath=inherited)))
        path = os.pathsep.join([str(SITE), *([inherited] if inherited else [])])
        return {**environment, VARIABLE: value, "PYTHONPATH": path}


def take_options() -> Options | None:
    """The options of this process, with the environment restored for it and its children.

    A launcher takes none, so that those whom it starts do.
    """
    text = os.environ.get(VARIABLE)
    if text is None or not runs_the_script():
        return None
    options = Options(**json.loads(text))
    del os.environ[VARIABLE]
    if options.pythonpath is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = options.pythonpath
    return options
