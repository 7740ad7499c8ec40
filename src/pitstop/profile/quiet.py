"""Quiet: what we cannot describe must still run."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def quiet(method: Callable[Parameters, Result]) -> Callable[Parameters, Result | None]:
    """Let a function fail without a trace: it returns nothing, and the script goes on."""

    @wraps(method)
    def guarded(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result | None:
        try:
            return method(*arguments, **options)
        except Exception:  # noqa: BLE001 never in the user's way
            return None

    return guarded


def attempt(action: Callable[[], Any], otherwise: Any) -> Any:
    """The value of ``action``; ``otherwise`` where it fails."""
    try:
        return action()
    except Exception:  # noqa: BLE001 never in the user's way
        return otherwise
