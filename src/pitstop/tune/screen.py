"""Screen: how a search is followed, on a terminal or in a log. All of it goes to stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pitstop.core.printable import printable, printable_lines
from pitstop.core.trial import Trial
from pitstop.report.to_terminal import STYLES
from pitstop.tune.story import said


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a search says what it does."""

    doing: Callable[[str], None]  # what takes time now
    running: Callable[[str], None]  # the run that it waits for
    say: Callable[[str], None]  # what stays to be read

    def tried(self, trial: Trial) -> None:
        """A trial has ended."""
        self.say(f"  {said(trial)}")


@contextmanager
def screen() -> Iterator[Screen]:
    """A line that moves, and lines that stay; where that is no terminal, lines only."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def tell(text: str, style: str = "") -> None:
        console.print(printable_lines(text), style=style)

    if not console.is_terminal:
        yield Screen(tell, lambda _: None, tell)
        return
    text = "{task.description}{task.fields[run]}"
    columns = SpinnerColumn(), TextColumn(text), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("begins", total=None, run="")

        def say(text: str) -> None:
            verdict = next((each for each in STYLES if f": {each}" in text), "")
            tell(text, STYLES.get(verdict, ""))

        yield Screen(
            lambda text: progress.reset(task, description=printable(text), run=""),
            lambda text: progress.update(task, run=f": {printable(text)}"),
            say,
        )
