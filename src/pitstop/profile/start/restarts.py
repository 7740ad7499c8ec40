"""Restarts: a script that starts itself anew in its own process (``os.execv``) is still the run.

Scripts do so for variables that only a new process obeys, such as ``LD_LIBRARY_PATH``. A fork that
becomes another program is a helper, and is left alone.
"""

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from pitstop.profile.hooks.attempt import attempt, leave_no_trace
from pitstop.profile.start.options import Options

OUR_FRAMES = 3  # between the script's line and Python's own function


def follow(options: Options) -> None:
    """Enter what this process becomes as the process itself was entered."""
    process, become = os.getpid(), os.execve

    def entered(environment: Mapping[str, str]) -> Mapping[str, str]:
        is_helper = os.getpid() != process
        return environment if is_helper else options.enter(environment)

    def with_variables(path: Any, words: Any, env: Any) -> Any:
        return become(path, words, attempt(entered, env, otherwise=env))

    def as_it_is(path: Any, words: Any, /) -> Any:
        return with_variables(path, words, os.environ)

    for original, ours in ((os.execve, with_variables), (os.execv, as_it_is)):
        setattr(os, original.__name__, _unnoticed(original, ours))


def _unnoticed(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Our function with the name of the original; its errors do not show our lines."""

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return ours(*arguments, **named)
        except BaseException as error:
            leave_no_trace(error, OUR_FRAMES)
            raise

    return call
