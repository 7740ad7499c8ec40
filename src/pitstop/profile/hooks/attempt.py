"""Attempt: how anything of ours may fail, and how the script's own errors pass through us."""

import sys
from collections.abc import Callable
from typing import Any


def ignore(_: Exception) -> None:
    """What is done about a failure that nobody needs to hear of."""


def attempt(
    action: Callable[..., Any],
    *arguments: Any,
    otherwise: Any = None,
    failed: Callable[[Exception], None] = ignore,
) -> Any:
    """The value of ``action``; where it raises, ``failed`` is told and ``otherwise`` returned."""
    try:
        return action(*arguments)
    except Exception as error:  # noqa: BLE001 never in the user's way
        failed(error)
        return otherwise


def complain(said: str) -> None:
    """Say one line on stderr; a script may have closed it, or never had one."""

    def say() -> None:
        sys.stderr.write(f"pitstop: {said}\n")
        sys.stderr.flush()

    attempt(say)


def leave_no_trace(error: BaseException, frames: int = 1) -> None:
    """Take our own function, which is about to ``raise`` an error again, out of its traceback."""
    for _ in range(frames):
        if error.__traceback__:
            error.__traceback__ = error.__traceback__.tb_next
