"""``pitstop demo``: the main job on an embedded default."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from pitstop.cli.main import INTERRUPTED
from pitstop.cli.output import show
from pitstop.cli.tune import diagnose
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.private import own_folder
from pitstop.doctor.read import read_hardware
from pitstop.report import to_html
from pitstop.tune import session
from pitstop.tune.pit_stop import pit_stop
from pitstop.tune.sandbox import landlock
from pitstop.tune.screen import screen
from pitstop.tune.session import Session

EXAMPLES = """\b
Examples:
  pitstop demo
"""
MODULE = "pitstop.workloads.frame_interpolation.slow"
REPORT = "demo.html"
BUDGET_MINUTES = 4.0  # then what is known by then is told; two quiet cores need about three
STEPS = 6  # of each run; starting one takes as long
# Threads that wait for each other take up to four times as long when a virtual machine's neighbours
# wake up, whether they spin or sleep meanwhile; one thread loses no more than is taken from it.
ONE_THREAD = ("OMP_NUM_THREADS", "1")
SKIPPED = (  # each needs a dozen fresh processes, or minutes to compile
    "allocator",
    "compile",
    "fp16",
    "fused-group-norm",
    "loader",
    "threads",
)
SKIPPED_ON_CPU = (  # few processors compute in bf16; the optimizer has too little to gain there
    "bf16",
    "fused-optimizer",
)
STORY = """\
A pit stop on a small video model, which is trained on this machine as its authors wrote it.

  look    one run, untouched: where does each step go, and what could the machine do?
  try     one change after the other, put on from outside; no file is edited
  guard   the losses must stay those of the untouched run, but for rounding
  prove   untouched against what was kept, pair by pair, until it is beyond the noise

This takes three to four minutes on two cores. Ctrl-C gives what is known by then.
"""


@click.command(epilog=EXAMPLES)
def command() -> int:
    """Tune a small video model that comes with Pitstop, in three to four minutes."""
    click.echo(STORY, err=True)
    gpus = read_hardware().gpus
    if not gpus:
        os.environ.setdefault(*ONE_THREAD)
    _generate()
    typed = ("-m", MODULE, "--small")
    asked = Session(
        (sys.executable, *typed),
        typed,
        steps=STEPS,
        budget_minutes=BUDGET_MINUTES,
        skip=SKIPPED if gpus else (*SKIPPED, *SKIPPED_ON_CPU),
        in_place=bool(landlock.missing()),  # which is a temporary folder
    )
    report = own_folder(Path.cwd()) / REPORT
    with _elsewhere() as place, screen() as shown:
        folder = session.begin(place, asked)
        result = pit_stop(asked, folder, report.with_suffix(".toml"), diagnose, shown)
    told = replace(result.report, next="")  # a search to resume was in the temporary folder
    show(told)
    store.write_text(report, to_html.render(told))
    program = sys.argv[0]  # as it was typed: after `make demo` it is not on the path
    click.echo(f"\nOpen {report} in a browser. On your own script:\n  {program} tune train.py ...")
    return INTERRUPTED if result.interrupted else 0


def _generate() -> None:
    """Make the model's data once, beforehand: it is no part of what is timed."""
    try:
        from pitstop.workloads.frame_interpolation.data import (  # noqa: PLC0415 needs torch
            SMALL,
            build_triplets,
        )
    except ImportError as error:
        missing = f"the demo needs {error.name}"
        raise PitstopError(f"{missing}: pip install 'pitstop[workloads]'") from None
    build_triplets(SMALL, None)


@contextlib.contextmanager
def _elsewhere() -> Iterator[Path]:
    """A temporary folder to be in: nothing of the demo stays but its results."""
    with tempfile.TemporaryDirectory(prefix="pitstop-demo-") as place, contextlib.chdir(place):
        yield Path(place)
