"""``pitstop demo``: the main job on an embedded default."""

import sys
from pathlib import Path

import click

from pitstop.cli.doctor import with_limits
from pitstop.cli.output import write
from pitstop.doctor.examine import examine
from pitstop.doctor.read import read_machine

EXAMPLES = """\b
Examples:
  pitstop demo
"""
REPORT = Path(".pitstop/demo.md")


@click.command(epilog=EXAMPLES)
def command() -> None:
    """Check this machine, and show what a report looks like."""
    click.echo("Reading this machine, then measuring what it can do (some seconds) ...\n", err=True)
    report = examine(*with_limits(read_machine(), remeasure=False))
    write(report, None, None)
    write(report, None, REPORT)
    program = sys.argv[0]  # as it was typed: after `make demo` it is not on the path
    click.echo(
        "\nNow try it on something slow:\n"
        f"  {program} bench --list\n"
        f"  {program} profile --steps 20 -m pitstop.workloads.frame_interpolation.slow --small"
    )
