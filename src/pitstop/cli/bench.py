"""``pitstop bench``: the five systems as found, tuned and fast, side by side."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import click
from rich.console import Console

from pitstop.compare.pairs import LOOKS
from pitstop.core.errors import PitstopError
from pitstop.workloads import bench, results_text
from pitstop.workloads.before_after import Asked, Told, measure
from pitstop.workloads.results import save_all

EXAMPLES = """\b
Examples:
  pitstop bench --list
  pitstop bench --small                                 all five, on two CPU cores
  pitstop bench frame_interpolation tiled_vae           full size, on a GPU
  pitstop bench lora_diffusion --small --edits          each edit alone and in sum
  pitstop bench spike_deblur --with tuned.toml          what `pitstop tune` kept, too
  pitstop bench tiled_vae --small -- --seed 1           own options after --

\b
All forms of a system are started at once and take turns; those that wait are held still, with all
their processes. The interval of a ratio is that of `pitstop compare`. Each form then trains to its
last step, which gives its quality; --times-only leaves that out.
"""


@click.command(epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, metavar="[NAME ...] [-- OPTIONS]")
@click.option("--list", "listed", is_flag=True, help="List the systems.")
@click.option("--small", is_flag=True, help="A size for two CPU cores instead of a large GPU.")
@click.option("--steps", type=click.IntRange(min=4), default=30, show_default=True)
@click.option(
    "--pairs",
    type=click.IntRange(1, LOOKS[-1]),
    default=LOOKS[-1],
    help="Pairs of turns at most; fewer if all is clear, or the steps are used up.",
)
@click.option("--times-only", is_flag=True, help="End each form once its times are known.")
@click.option("--edits", is_flag=True, help="Also each edit of fast.py, alone and in sum.")
@click.option(
    "--beside",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Edits that are in memory at once, with --edits.",
)
@click.option("--at-once", is_flag=True, help="Start all systems before the first is measured.")
@click.option(
    "--with",
    "tuned",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The file of kept changes that `pitstop tune` wrote for this system.",
)
@click.option("--save", type=click.Path(path_type=Path), help="A folder for the results as JSON.")
def command(
    words: tuple[str, ...],
    listed: bool,
    small: bool,
    steps: int,
    pairs: int,
    times_only: bool,
    edits: bool,
    beside: int,
    at_once: bool,
    tuned: Path | None,
    save: Path | None,
) -> None:
    """Run the systems NAME, or all five, before and after their pit stop."""
    if listed:
        for each in bench.names():
            click.echo(f"{each:<20}  {bench.summary(each)}")
        return
    named = list(takewhile(lambda word: not word.startswith("-"), words))
    if unknown := [each for each in named if each not in bench.names()]:
        known = ", ".join(bench.names())
        raise PitstopError(f"no workload {unknown[0]!r}: choose from {known}")
    if tuned and len(named) != 1:
        raise PitstopError("--with is for one system: name it")
    asked = Asked(
        small, steps, pairs, not times_only, edits, beside, at_once, tuned, words[len(named) :]
    )
    with _watched() as told:
        typed = " ".join(["pitstop", *sys.argv[1:]])
        for result in measure(named or bench.names(), asked, typed, told):
            click.echo(results_text.table(result))
            if save:
                save_all(save, [result])


@contextmanager
def _watched() -> Iterator[Told]:
    """What is done just now: on a line of a terminal, or as lines where that is none."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: click.echo(text, err=True)
        return
    with console.status("") as status:
        yield status.update
