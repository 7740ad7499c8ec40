"""Patch: put a function of ours in the place of torch's, unnoticed, and take it away again."""

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from types import CodeType, FunctionType
from typing import Any

from torch import Tensor
from torch.compiler import is_dynamo_compiling

from pitstop import internals
from pitstop.profile.hooks.attempt import attempt, ignore, leave_no_trace

Undo = Callable[[], None]
Function = Callable[..., Any]
Given = tuple[tuple[Any, ...], dict[str, Any]]  # what a function was called with


def patch(owners: tuple[Any, ...], name: str, build: Callable[[Function], Function]) -> Undo:
    """Put ``build(original)`` under one name in all its owners; the undoing leaves no trace.

    Owners share one replacement, as they shared the original: Dynamo knows functions by identity.
    Where the script has put something of its own on top of ours, that is left in place.
    """
    original = getattr(owners[0], name)
    replacement = disguised(original, build(original))
    undos = [_replace(owner, name, replacement) for owner in owners]

    def undo() -> None:
        for each in undos:
            each()

    return undo


def disguised(original: Function, replacement: Function) -> Function:
    """A function of ours that looks like the original to the script and to compilers."""
    replacement = wraps(original)(replacement)
    unseen(replacement, all_below=False)
    vars(replacement)["__prepare_scriptable__"] = lambda: original  # torch.jit takes that
    return replacement


def _replace(owner: Any, name: str, replacement: Function) -> Undo:
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
        dynamo: Any = internals.dynamo_frames
        if not hasattr(dynamo, "set_code_exec_strategy"):  # torch 2.6 skips functions one by one
            _skip([function])
            if all_below:
                _skip_all_of_ours(len(sys.modules))
            return
        skip, default = dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT
        strategy = dynamo._FrameExecStrategy(skip, skip if all_below else default)
        dynamo.set_code_exec_strategy(function.__code__, strategy)


@cache
def _skip_all_of_ours(_: int) -> None:
    """Skip every function of this package; they call little else that Dynamo would compile.

    Again when there are more modules: some of ours may be among them.
    """
    found = [each for each in gc.get_objects() if type(each) is FunctionType]
    _skip([each for each in found if (each.__module__ or "").startswith(f"{__package__}.")])


def _skip(functions: list[Any]) -> None:
    """Skip some functions and those that are defined inside them."""
    dynamo: Any = internals.dynamo_frames
    waiting: list[Any] = [each.__code__ for each in functions]
    while waiting:
        code = waiting.pop()
        dynamo.skip_code(code)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


def with_callbacks(
    original: Function,
    begins: Callable[[Given], object],
    ends: Callable[[Given, Any], object] | None = None,
    fails: Callable[[Given], object] | None = None,
    failed: Callable[[Exception], None] = ignore,
) -> Function:
    """The same function, which tells of its calls; what ``begins`` denies is told no further.

    Within a graph of Dynamo it tells nothing. A failure of ours is ``failed``, an error of the
    original passes through and shows no frame of ours: to raise again adds none.
    """
    for each in (begins, ends, failed):
        unseen(each)

    def call(*arguments: Any, **options: Any) -> Any:
        if is_dynamo_compiling():
            return original(*arguments, **options)
        given = arguments, options
        try:
            counts = begins(given)
        except Exception as error:  # noqa: BLE001 never in the user's way
            counts = None
            failed(error)
        try:
            result = original(*arguments, **options)
        except BaseException as error:
            if counts and fails:
                attempt(fails, given, failed=failed)
            leave_no_trace(error)
            raise
        if counts and ends:
            try:
                ends(given, result)
            except Exception as error:  # noqa: BLE001 likewise
                failed(error)
        return result

    return call


def argument(given: Given, position: int, name: str) -> Any:
    """One of the values that a function was called with, in whatever way."""
    arguments, options = given
    return arguments[position] if len(arguments) > position else options.get(name)


def root_of(given: Given) -> Tensor | None:
    """The first tensor that a backward pass starts from."""
    arguments, options = given
    root = arguments[0] if arguments else options.get("tensors")
    if isinstance(root, Tensor):
        return root
    first = root[0] if isinstance(root, list | tuple) and root else None
    return first if isinstance(first, Tensor) else None
