"""Screen: how a search is followed, on a terminal or in a log. All of it goes to stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from pitstop.core.trial import Trial
from pitstop.core.units import milliseconds
from pitstop.report.to_terminal import STYLES
from pitstop.tune.checked import label
from pitstop.tune.found import Found
from pitstop.tune.report import said

REFRESHES = 4  # in a second


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a search says what it does."""

    doing: Callable[[str], None]  # what takes time now
    running: Callable[[str], None]  # the process that it waits for
    say: Callable[[str], None]  # what stays to be read
    best: Callable[[Found], None] = lambda _: None  # what is kept by now
    begin: Callable[[float], None] = lambda _: None  # when the budget will be spent

    def tried(self, trial: Trial) -> None:
        """A trial has ended."""
        self.say(f"  {said(trial)}")


class _Live:
    """What the moving lines show."""

    def __init__(self) -> None:
        self.doing = "begins"
        self.running = ""
        self.best = "nothing kept yet"
        self.ends_s = 0.0
        self._spinner = Spinner("dots")

    def __rich__(self) -> Group:
        table = Table.grid(padding=(0, 1))
        left_s = max(0.0, self.ends_s - time.monotonic())
        left = f"{int(left_s) // 60}:{int(left_s) % 60:02} left" if self.ends_s else ""
        what = f"{self.doing}: {self.running}" if self.running else self.doing
        self._spinner.update(text=what)
        table.add_row(self._spinner)
        table.add_row(f"  best so far: {self.best}   {left}")
        return Group(table)


@contextmanager
def screen() -> Iterator[Screen]:
    """Two lines that move, and lines that stay; where that is no terminal, lines only."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        yield Screen(console.print, lambda _: None, console.print)
        return
    shown = _Live()

    def doing(text: str) -> None:
        shown.doing, shown.running = text, ""

    def running(text: str) -> None:
        shown.running = text

    def best(found: Found) -> None:
        shown.best = best_so_far(found)

    def begin(ends_s: float) -> None:
        shown.ends_s = ends_s

    def say(text: str) -> None:
        verdict = next((each for each in STYLES if f": {each}" in text), "")
        console.print(text, style=STYLES.get(verdict, ""))

    with Live(shown, console=console, transient=True, refresh_per_second=REFRESHES):
        yield Screen(doing, running, say, best, begin)


def best_so_far(found: Found) -> str:
    """What is kept by now, and what it has made of the step."""
    if not found.kept:
        return "nothing kept yet"
    names = " + ".join(map(label, found.kept))
    if found.step_ms is None:
        return names
    before, after = found.step_ms
    return f"{milliseconds(after)} now / {milliseconds(before)} untouched, with {names}"
