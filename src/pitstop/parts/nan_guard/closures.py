"""Closures: where a step computes its gradients inside, they are judged when they are there.

Lightning calls ``optimizer.step(closure)``. Before such a step the gradients are those of the step
before it; the optimizer calls the closure first, and then takes its step.
"""

from collections.abc import Callable, Mapping
from typing import Any

Given = tuple[tuple[Any, ...], dict[str, Any]]


def with_closure(
    arguments: tuple[Any, ...], options: Mapping[str, Any], then: Callable[[], object]
) -> Given | None:
    """What the step is to be called with, so that ``then`` follows its closure; None without one.

    The first of the arguments is the optimizer itself, as torch's hooks get them.
    """
    closure = arguments[1] if len(arguments) > 1 else options.get("closure")
    if not callable(closure):
        return None

    def judged() -> Any:
        loss = closure()
        then()
        return loss

    if len(arguments) > 1:
        return (arguments[0], judged, *arguments[2:]), dict(options)
    return arguments, {**options, "closure": judged}
