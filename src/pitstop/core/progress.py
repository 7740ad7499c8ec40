"""Progress: a bar or a spinner on stderr while something takes seconds, on a terminal only."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 2.0  # shorter than this, a bar only flickers


class Progress:
    """Counts what is done; shows itself once the wait is long enough to wonder about."""

    def __init__(self, total: int, wanted: bool, doing: str = "scanning") -> None:
        """``total`` counts each file once per pass."""
        self.total = total
        self.doing = doing
        self.done = 0
        self.wanted = wanted and sys.stderr.isatty()
        self.started = time.monotonic()
        self.bar: Any = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def expect(self, total: int) -> None:
        """So much is to be done, as is known only now."""
        self.total = total

    def advance(self, count: int) -> None:
        """Some more files are done."""
        self.done += count
        if self.wanted and self.bar is None and time.monotonic() - self.started > PATIENCE_S:
            self.bar = self._open()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.done)

    def _open(self) -> Any:
        from rich.console import Console  # noqa: PLC0415 most scans end before they need it
        from rich.progress import Progress as Bar  # noqa: PLC0415

        bar = Bar(console=Console(stderr=True), transient=True)
        bar.add_task(self.doing, total=self.total)
        bar.start()
        return bar


@contextmanager
def working(text: str) -> Iterator[None]:
    """A spinner while something takes seconds."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 likewise

    with Console(stderr=True).status(text):
        yield
