"""``pitstop compare``: whether B is better than A, and whether it keeps its limits."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pitstop.cli.main import INTERRUPTED
from pitstop.cli.output import Output, output_options
from pitstop.compare import gates as limits
from pitstop.compare import record
from pitstop.compare.commands import Setting, rehearse, run_pairs
from pitstop.compare.differences import differences
from pitstop.compare.judge import judge_recordings, judge_runs
from pitstop.compare.pairs import LOOKS, Pairs, looks_within
from pitstop.compare.quantities import Quantity, Sample, metric_name, own_metric, sample
from pitstop.compare.summary import outcome, settled, summarise
from pitstop.core.errors import PitstopError
from pitstop.core.report import Report
from pitstop.profile.read import runs
from pitstop.profile.start import launch

FOR_COMMANDS = ("steps", "warmup", "pairs", "keep")  # recordings are as they are
EXIT = {"pass": 0, "fail": 1, "inconclusive": 0}
INCONCLUSIVE = 3

EXAMPLES = """\b
Examples:
  pitstop compare "python train.py" "python train.py --amp" --steps 40
  pitstop compare "train.py --bs 4" "train.py --bs 8" --metric 'psnr=(\\S+)'
  pitstop compare 20261115-0425 last                       two recordings
  pitstop compare OLD NEW --gate "step<=+3%" --gate "memory<=+5%" --strict

\b
Two commands are run in alternating pairs: 6, then 12, then 24 if that is still needed.
Metrics for gates: step, p50, p95, samples, wait, memory, loss, and those of your own.
Exit code: 0 gates kept (or none given), 1 a gate broken, 2 could not run,
3 inconclusive (with --strict, else 0).
"""


@click.command(epilog=EXAMPLES)
@click.argument("a")
@click.argument("b")
@click.option("--steps", type=click.IntRange(min=1), help="End each run after so many steps.")
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True)
@click.option(
    "--pairs",
    type=click.IntRange(1, LOOKS[-1]),
    default=LOOKS[-1],
    help="Pairs at most: 6, 12 or 24.",
)
@click.option("--metric", "patterns", multiple=True, help="A number of your own: 'psnr=(\\S+)'.")
@click.option("--lower-better", multiple=True, metavar="NAME", help="Of --metric: lower is better.")
@click.option("--gate", "limits_typed", multiple=True, help="A limit to keep: 'step<=+3%'.")
@click.option("--strict", is_flag=True, help="Exit with 3 when a gate is inconclusive.")
@click.option("--keep", is_flag=True, help="Keep the recordings of all runs in .pitstop/runs.")
@output_options
def command(
    a: str,
    b: str,
    steps: int | None,
    warmup: int,
    pairs: int,
    patterns: tuple[str, ...],
    lower_better: tuple[str, ...],
    limits_typed: tuple[str, ...],
    strict: bool,
    keep: bool,
    output: Output,
) -> int:
    """Is B better than A? Each is a recording, or a command in quotes, which is then run."""
    own, gates = _asked(patterns, lower_better, limits_typed)
    interrupted = False
    if _is_command(a) != _is_command(b):
        raise PitstopError("one recording and one command: give two of a kind")
    if _is_command(a):
        with _folders(keep) as folder:
            setting = Setting(folder, steps, warmup, looks_within(pairs))
            report, interrupted = _commands((a, b), setting, own, gates)
    else:
        _refuse_options_of_commands()
        report = _recordings((a, b), own, gates)
    output.write(report)
    if interrupted:
        return INTERRUPTED
    found = outcome(gates, report.comparisons)
    return INCONCLUSIVE if strict and found == "inconclusive" else EXIT[found]


def _asked(
    patterns: Sequence[str], lower: Sequence[str], texts: Sequence[str]
) -> tuple[list[Quantity], list[limits.Gate]]:
    """The user's own metrics and gates, before anything runs."""
    names = [metric_name(pattern) for pattern in patterns]
    low = [metric_name(name) for name in lower]
    if unknown := [name for name in low if name not in names]:
        raise PitstopError(f"--lower-better {unknown[0]}: no --metric has this name")
    own = [own_metric(pattern, metric_name(pattern) in low) for pattern in patterns]
    high = [name for name in names if name not in low]
    return own, [limits.parse(text, high, low) for text in texts]


def _refuse_options_of_commands() -> None:
    source = click.get_current_context().get_parameter_source
    for name in FOR_COMMANDS:
        if source(name) is ParameterSource.COMMANDLINE:
            raise PitstopError(f"--{name} is for two commands: these recordings are made already")


def _is_command(word: str) -> bool:
    """Whether it is to be run: several words, or one that is a script; all else is a recording."""
    if (Path(word) / "run.json").is_file():
        return False
    return len(word.split()) > 1 or Path(word).is_file()


def _recordings(
    names: tuple[str, str], own: Sequence[Quantity], gates: Sequence[limits.Gate]
) -> Report:
    first, second = (record.load(runs.find(Path.cwd(), name)) for name in names)
    a, b = sample(first), sample(second)
    for each, name in ((a, names[0]), (b, names[1])):
        if not each.evidence.steady:
            raise PitstopError(f"{name} holds no undisturbed step: record more steps")
        if own and not each.lines:
            raise PitstopError(f"{name} holds no output for --metric: compare the two commands")
    same_work = a.batch == b.batch
    found = judge_recordings(a, b, own)
    return summarise(found, gates, list(differences(first, second)), same_work, one_run=True)


def _commands(
    typed: tuple[str, str], setting: Setting, own: Sequence[Quantity], gates: Sequence[limits.Gate]
) -> tuple[Report, bool]:
    commands = record.words(typed[0]), record.words(typed[1])
    with _progress(setting.looks) as on_run:
        rehearsals = []
        for command, side in zip(commands, "AB", strict=True):
            on_run(side)
            rehearsals.append(rehearse(command, side, setting, own))
        first, second = rehearsals
        same_work = sample(first).batch == sample(second).batch

        def enough(found: Pairs[Sample]) -> bool:
            return settled(judge_runs(found.before, found.after, own), gates, same_work)

        found = run_pairs(commands, setting, enough, on_run)
    if not found.before:
        raise click.Abort
    comparisons = judge_runs(found.before, found.after, own)
    notes = [*differences(first, second), *(["ended by Ctrl-C"] if found.interrupted else [])]
    return summarise(comparisons, gates, notes, same_work), found.interrupted


@contextmanager
def _folders(keep: bool) -> Iterator[Callable[[str], Path]]:
    """Where recordings go: a temporary folder that is removed at the end, or among the others."""
    with ExitStack() as stack:
        if keep:
            yield lambda side: launch.new_run_folder(Path.cwd(), f"compare-{side.lower()}")
            return
        numbers = count(1)
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pitstop-compare-")))
        yield lambda side: top / f"{next(numbers)}-{side.lower()}"


@contextmanager
def _progress(looks: Sequence[int]) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says which run of how many this is; none where that is no terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("rehearsal")
        started = count(-2)  # two rehearsals come first

        def on_run(side: str) -> None:
            done = next(started)
            pair = done // 2 + 1
            look = next(each for each in looks if each >= pair)
            text = "rehearsal" if done < 0 else f"pair {pair} of {look} (at most {looks[-1]})"
            total, completed = 2 * look + 2, done + 2
            progress.update(task, description=f"{text}: {side}", total=total, completed=completed)

        yield on_run
