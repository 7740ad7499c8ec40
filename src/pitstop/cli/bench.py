"""``pitstop bench``: the five reference workloads, as found."""

import click
from rich.console import Console
from rich.progress import Progress

from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.core.units import binary_bytes, milliseconds
from pitstop.workloads import bench

EXAMPLES = """\b
Examples:
  pitstop bench --list
  pitstop bench frame_interpolation --small --steps 20
  pitstop bench pose_regression --small --steps 20 -- --seed 1     (own options after --)
"""


@click.command(epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1)
@click.option("--list", "listed", is_flag=True, help="List the workloads.")
@click.option("--small", is_flag=True, help="A size for two CPU cores instead of a large GPU.")
@click.option("--steps", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--verbose", is_flag=True, help="Show the workload's own output.")
def command(
    name: str | None,
    arguments: tuple[str, ...],
    listed: bool,
    small: bool,
    steps: int,
    verbose: bool,
) -> None:
    """Run the workload NAME as found; print its step time, memory and quality."""
    if listed:
        for each in bench.names():
            click.echo(f"{each:<20}  {bench.summary(each)}")
        return
    if name is None:
        raise PitstopError("which workload? `pitstop bench --list` names them")
    options = [*(["--small"] if small else []), "--steps", str(steps), *arguments]
    click.echo(_table(name, _watched(name, options, steps, verbose)), nl=False)


def _watched(name: str, options: list[str], steps: int, verbose: bool) -> bench.Outcome:
    """Run with a progress bar on a terminal, and with the workload's own lines where wanted."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=steps)

        def on_line(line: str) -> None:
            if verbose:
                console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
            progress.advance(task, line.startswith("[step "))

        return bench.run(name, options, on_line)


def _table(name: str, outcome: bench.Outcome) -> str:
    low, high = outcome.quartiles_seconds
    middle = outcome.median_seconds
    rows = [
        ("workload", f"{name}, as found"),
        ("steps", f"{len(outcome.step_seconds)} ({len(outcome.steady_seconds)} after warm-up)"),
        ("step", f"{milliseconds(middle * 1e3)} median, {_range(low, high)} middle half"),
        ("samples/s", f"{outcome.batch / middle:.2f} ({outcome.batch} per step)"),
        ("host memory", f"{binary_bytes(outcome.peak_host_bytes)} peak"),
        ("GPU memory", _peak(outcome.peak_gpu_bytes)),
        (outcome.metric, _change(outcome.quality_before, outcome.quality_after)),
    ]
    return "".join(f"{title:<12}  {value}\n" for title, value in rows)


def _range(low: float, high: float) -> str:
    return f"{milliseconds(low * 1e3)} to {milliseconds(high * 1e3)}"


def _peak(count: int | None) -> str:
    return "n/a (ran on the CPU)" if count is None else f"{binary_bytes(count)} peak"


def _change(before: float | None, after: float | None) -> str:
    before_text, after_text = ("n/a" if each is None else f"{each:.4g}" for each in (before, after))
    return f"{before_text} before, {after_text} after"
