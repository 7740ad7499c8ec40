"""Failures: what becomes of a run when a part of a change raises an error.

A trial ends: a change that cannot be applied must not be timed as if it were. A run in earnest goes
on without the change, with the script's own cleaning up, checkpoints and exit code.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from torch.compiler import is_dynamo_compiling

from pitstop.profile.start.options import CANNOT_BEGIN

Around = Callable[..., Any]  # around(original, *arguments) -> what takes the place of its result
Failed = Callable[[Exception], None]


def end_trial(name: str, error: Exception) -> None:
    """Say what failed, and end this process at once."""
    say(f"change {name} failed: {in_one_line(error)}")
    os._exit(CANNOT_BEGIN)


def say(text: str) -> None:
    """A line of ours among those that the script complains of."""
    sys.stderr.write(f"pitstop: {text}\n")
    sys.stderr.flush()


def in_one_line(error: Exception) -> str:
    """What it is and what it says, as far as its first line goes."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def shielded(around: Around, failed: Failed, about: int = 0) -> Around:
    """The same, but an error of its own is told, and the original alone is called.

    An error that the original has raised is the script's. A call that was made is not repeated.
    The first arguments may be ``about`` the call: only ``around`` gets them.
    """

    def either(original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if is_dynamo_compiling():  # it would trace all this
            return around(original, *arguments, **options)
        raised: list[BaseException] = []
        results: list[Any] = []

        def watched(*given: Any, **named: Any) -> Any:
            try:
                results.append(original(*given, **named))
            except BaseException as error:
                raised.append(error)
                raise
            return results[-1]

        try:
            return around(watched, *arguments, **options)
        except Exception as error:
            if raised:
                raise
            failed(error)
            return results[-1] if results else original(*arguments[about:], **options)

    return either
