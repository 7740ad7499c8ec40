"""Watching: what is told while a profiled script runs: its pace, and when enough was seen."""

import time
from pathlib import Path

from pitstop.cli.failure import say
from pitstop.cli.output import Output
from pitstop.core.last_row import LastRow
from pitstop.core.units import count, milliseconds, minutes
from pitstop.profile.read.runs import Run
from pitstop.profile.start.options import ENOUGH, Options
from pitstop.profile.start.pace import PaceSeen
from pitstop.run_report import keep_surroundings, report_of

SEEN = "seen: Ctrl-C gives the report, or it comes when the script ends"


class Watch:
    """Keeps a live line on a terminal, and writes the page as soon as enough was seen."""

    def __init__(self, folder: Path, run: Run, output: Output, options: Options) -> None:
        self._folder, self._run, self._output = folder, run, output
        self._options = options
        self._row = LastRow()
        self._pace = PaceSeen(folder)
        self._begun = time.monotonic()
        self._enough = 0  # steps after which enough was seen

    def __enter__(self) -> "Watch":
        self._row.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._row.__exit__()

    def look(self) -> None:
        """Twice a second: look how far the recording is."""
        self._pace.look()
        self._row.show(self._line())
        mark = self._folder / ENOUGH
        if not self._enough and not self._options.quick and mark.exists():
            self._enough = int(mark.read_text())
            self._report_early()

    def _report_early(self) -> None:
        """The report could come now: write the page, and say so."""
        keep_surroundings(self._folder, self._run)
        if self._output.path:
            self._output.save(report_of(self._folder, self._run))
        if not self._row.is_there:
            say(f"{count(self._enough, 'step')} {SEEN}")

    def _line(self) -> str:
        """``pitstop: step 23, 412 ms each; ...``."""
        pace = self._pace
        if not pace.steps:
            return f"pitstop: no step finished in {minutes(time.monotonic() - self._begun)}"
        total = f" of {self._options.steps}" if self._options.steps else ""
        each = f", {milliseconds(pace.step_ms)} each" if pace.step_ms else ""
        return f"pitstop: step {pace.steps}{total}{each}; {self._outlook()}"

    def _outlook(self) -> str:
        if self._enough:
            return "enough seen: Ctrl-C gives the report"
        return "the report comes by itself" if self._options.quick else "not enough seen yet"
