"""Patch: put a function of ours in the place of torch's, unnoticed, and take it away again."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from pitstop.profile.recorder import Recorder

Undo = Callable[[], None]
Result = TypeVar("Result")

_HERE = str(Path(__file__).parent)


def patch(
    owners: tuple[Any, ...], name: str, build: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Undo:
    """Put ``build(original)`` under one name in all its owners; the undoing leaves no trace.

    Owners share one replacement, as they shared the original: Dynamo knows functions by identity.
    Where the script has put something of its own on top of ours, that is left in place.
    """
    original = getattr(owners[0], name)
    replacement = wraps(original)(build(original))
    unseen(replacement, all_below=False)
    undos = [_replace(owner, name, replacement) for owner in owners]

    def undo() -> None:
        for each in undos:
            each()

    return undo


def _replace(owner: Any, name: str, replacement: Callable[..., Any]) -> Undo:
    original = getattr(owner, name)
    inherited = name not in vars(owner)
    setattr(owner, name, replacement)

    def undo() -> None:
        if vars(owner).get(name) is replacement:
            delattr(owner, name) if inherited else setattr(owner, name, original)

    return undo


def unseen(function: Any, all_below: bool = True) -> None:
    """Let Dynamo not compile a function of ours by itself, nor what it calls, unless torch does.

    It would where torch calls ours between two graphs. Within a graph it looks at ours as ever.
    """
    with suppress(AttributeError, TypeError):  # not every torch has these names
        dynamo: Any = torch._C._dynamo.eval_frame
        skip, default = dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT
        strategy = dynamo._FrameExecStrategy(skip, skip if all_below else default)
        dynamo.set_code_exec_strategy(function.__code__, strategy)


def guarded(recorder: "Recorder", action: Callable[..., Result], *arguments: Any) -> Result | None:
    """Call into the recorder while it records; a failure of ours ends that, never the script."""
    if not recorder.alive:
        return None
    try:
        return action(*arguments)
    except Exception as error:  # noqa: BLE001 never in the user's way
        recorder.fail(error)
        return None


def without_us(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the entries of this folder."""
    entries = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_HERE):
            entries.append((trace.tb_frame, trace.tb_lasti, trace.tb_lineno))
        trace = trace.tb_next
    for entry in reversed(entries):
        trace = TracebackType(trace, *entry)
    return trace
