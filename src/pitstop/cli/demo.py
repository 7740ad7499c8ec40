"""``pitstop demo``: the main job on an embedded default."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import click

from pitstop.cli.main import INTERRUPTED
from pitstop.cli.output import show
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
MODULE = "pitstop.demo.train"
REPORT = "demo.html"
BUDGET_MINUTES = 3.0  # then what is known by then is told
# Threads that wait for each other take up to four times as long when a virtual machine's neighbours
# wake up, whether they spin or sleep meanwhile; one thread loses no more than is taken from it.
ONE_THREAD = ("OMP_NUM_THREADS", "1")
SKIPPED = ("allocator", "compile", "threads")  # minutes to compile, or nothing to do here
STORY = """\
A pit stop on a small vision transformer, which is trained on this machine as many scripts do it.

  look    one run, untouched: where does each step go, and what could the machine do?
  try     what the look promises, all together, put on from outside; no file is edited
  guard   each step happens twice, off and on: the numbers must be those of the untouched one
  prove   untouched against what was kept, in alternation, until it is beyond the noise

This takes three minutes at most. Ctrl-C gives what is known by then.
"""


@click.command(epilog=EXAMPLES)
def command() -> int:
    """Tune a small training that comes with Pitstop, in three minutes."""
    click.echo(STORY, err=True)
    gpus = read_hardware().gpus
    if not gpus:
        os.environ.setdefault(*ONE_THREAD)
    _check_packages()
    typed = ("-m", MODULE)
    asked = Session(
        (sys.executable, *typed),
        typed,
        budget_minutes=BUDGET_MINUTES,
        skip=SKIPPED,
        in_place=bool(landlock.missing()),  # which is a temporary folder
    )
    report = own_folder(Path.cwd()) / REPORT
    with _elsewhere() as place, screen() as shown:
        folder = session.begin(place, asked)
        result = pit_stop(asked, folder, report.with_suffix(".toml"), shown)
    told = replace(result.report, next="")  # a search to resume was in the temporary folder
    show(told)
    store.write_text(report, to_html.render(told))
    program = sys.argv[0]  # as it was typed: after `make demo` it is not on the path
    click.echo(f"\nOpen {report} in a browser. On your own script:\n  {program} tune train.py ...")
    return INTERRUPTED if result.interrupted else 0


def _check_packages() -> None:
    """Say what is missing before anything runs."""
    for name in ("torch", "numpy", "PIL"):
        if find_spec(name) is None:
            raise PitstopError(f"the demo needs {name}: pip install 'pitstop[workloads]'")


@contextlib.contextmanager
def _elsewhere() -> Iterator[Path]:
    """A temporary folder to be in: nothing of the demo stays but its results."""
    with tempfile.TemporaryDirectory(prefix="pitstop-demo-") as place, contextlib.chdir(place):
        yield Path(place)
