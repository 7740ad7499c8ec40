"""``pitstop scan``: what the source says, without running it."""

import difflib
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.cli.output import Output, output_options
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable, printable_lines
from pitstop.core.report import Report
from pitstop.scan import baseline as baselines
from pitstop.scan.run import Options, Scanned, scan_and_fix
from pitstop.scan.screen import first_screen
from pitstop.scan.worker import static_rules

CLEAN, FINDINGS, COULD_NOT_RUN = 0, 1, 2
SHORT = {None, "terminal", "agent"}  # formats in which one line for each cause is shown

EXAMPLES = """\b
Examples:
  pitstop scan                            the project in this folder
  pitstop scan train.py models/           some files and folders
  pitstop scan --all                      every place, and what is true but worth little
  pitstop scan --fix                      mend what cannot change results
  pitstop scan --unsafe-fixes --diff      show every fix, write nothing
  pitstop scan --select PIT2,loader-without-workers
  pitstop scan --ignore PIT3 --per-file-ignores "tests/*:ALL"
  pitstop scan --write-baseline old.json  an old project: what is there stays there ...
  pitstop scan --baseline old.json        ... and only what is new is told
  pitstop scan --format sarif --output scan.sarif
\b
Exit codes: 0 nothing found, 1 findings, 2 could not run.
A comment `# pitstop: ignore[PIT202]` silences a line, `ignore-file[PIT202]` a file.
"""


def _words(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """``--select A,B --select C`` as three words."""
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _globs(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    """``--per-file-ignores "tests/*:PIT2,PIT3"`` as a mapping from glob to codes."""
    found: dict[str, tuple[str, ...]] = {}
    for value in values:
        glob, colon, codes = value.rpartition(":")
        words = tuple(word.strip() for word in codes.split(",") if word.strip())
        if not colon or not glob or not words:
            raise click.BadParameter(f"{value!r} is not GLOB:CODE[,CODE]")
        found[glob] = (*found.get(glob, ()), *words)
    return found


@click.command(epilog=EXAMPLES)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option("--fix", is_flag=True, help="Apply the fixes that cannot change results.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: all fixes.")
@click.option("--diff", is_flag=True, help="Show what --fix would change; write nothing.")
@click.option("--select", multiple=True, callback=_words, help="Run only these rules.")
@click.option("--ignore", multiple=True, callback=_words, help="Leave these rules out.")
@click.option(
    "--per-file-ignores",
    multiple=True,
    callback=_globs,
    metavar="GLOB:CODE,...",
    help="Leave rules out in some files.",
)
@click.option(
    "--exclude",
    multiple=True,
    callback=_words,
    metavar="GLOB",
    help="Leave files out, besides those that git ignores.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Report only what FILE does not know.",
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what is found to FILE, and report nothing.",
)
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option("--all", "everything", is_flag=True, help="List every place, and notes as well.")
@click.option("--no-cache", is_flag=True, help="Look at every file again.")
@click.option(
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Processes to use; 0 means all cores. [default: 0]",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also when there are findings.")
@output_options
def command(
    paths: tuple[Path, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    per_file_ignores: Mapping[str, tuple[str, ...]],
    exclude: tuple[str, ...],
    baseline: Path | None,
    write_baseline: Path | None,
    statistics: bool,
    everything: bool,
    no_cache: bool,
    jobs: int,
    exit_zero: bool,
    output: Output,
) -> int:
    """Find in Python source and its config files what will be slow, and fix what can be fixed.

    The terminal shows one line for each cause, the dearest first. [*]: --fix mends it.

    Codes are given whole (PIT202), by their start (PIT2), as a rule's name, or as ALL.
    [tool.pitstop] in pyproject.toml holds select, ignore, per-file-ignores and exclude.
    """
    if unsafe_fixes and not (fix or diff):
        raise click.UsageError("--unsafe-fixes goes with --fix or --diff")
    notes = everything or statistics or bool(select)
    options = Options(
        select,
        ignore,
        per_file_ignores,
        exclude,
        not no_cache,
        jobs,
        progress=True,
        notes=notes,
        baseline=baseline,
    )
    scanned = scan_and_fix(paths or (Path(),), options, fix or diff, unsafe_fixes)
    if diff:
        return _show_diff(scanned, exit_zero)
    if fix:
        _write_fixes(scanned)
    if write_baseline:
        say(baselines.write_baseline(write_baseline, scanned.entries))
        return _exit_code(scanned, found=False)
    if statistics:
        click.echo(_count(scanned.report), nl=False)
    elif everything or output.path or output.format not in SHORT:
        output.write(scanned.report)
    else:
        output.write(first_screen(scanned.report, static_rules()))
    return _exit_code(scanned, bool(scanned.report.findings) and not exit_zero)


def _show_diff(scanned: Scanned, exit_zero: bool) -> int:
    """Print what a fix would change: to a file byte for byte, since it is a patch there."""
    shown = printable_lines if sys.stdout.isatty() else str
    for name, (before, after) in scanned.changes.items():
        before_lines, after_lines = (each.splitlines(keepends=True) for each in (before, after))
        header = printable(name)
        lines = difflib.unified_diff(before_lines, after_lines, header, header)
        click.echo("".join(_complete(shown(line)) for line in lines), nl=False)
    for line in scanned.report.skipped:
        say(f"skipped: {printable(line)}")
    return _exit_code(scanned, bool(scanned.changes) and not exit_zero)


def _exit_code(scanned: Scanned, found: bool) -> int:
    if scanned.failed:
        return COULD_NOT_RUN
    return FINDINGS if found else CLEAN


def _complete(line: str) -> str:
    """A last line without an end says so, as in every other diff."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _write_fixes(scanned: Scanned) -> None:
    try:
        scanned.write()
    except UnicodeError as error:
        raise PitstopError(f"a fix cannot be written in the file's encoding: {error}") from None
    if scanned.changes:
        done, files = len(scanned.applied), len(scanned.changes)
        say(f"fixed {done} in {files} file{'s' * (files != 1)}")


def _count(report: Report) -> str:
    """One line per rule, the most frequent first; ``[*]`` where all of them have a fix."""
    numbers = Counter((each.code, each.rule) for each in report.findings)
    unfixable = {each.code for each in report.findings if each.fix is None}
    lines = [
        f"{number:>6}  {code}  [{' ' if code in unfixable else '*'}]  {name}\n"
        for (code, name), number in numbers.most_common()
    ]
    return "".join(lines) or f"{report.verdict}\n"
