import sys
import time

import pytest

from pitstop.core.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("wanted", "terminal", "seconds", "shown"),
    [
        (True, True, 2.1, True),
        (True, True, 1.9, False),
        (True, False, 9.0, False),
        (False, True, 9.0, False),
    ],
)
def test_a_bar_on_a_terminal_after_two_seconds(
    clock, monkeypatch, wanted, terminal, seconds, shown
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with Progress(10, wanted) as progress:
        clock[0] = seconds
        progress.advance(4)
        assert (progress.bar is not None) == shown
        if shown:
            assert progress.bar.tasks[0].completed == 4
