"""Change `no-attention-weights`."""

import ast
import linecache
import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from pitstop.profile.source.lines import room_of
from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_weights_written

if TYPE_CHECKING:
    from pitstop.scan.source import Source
    from pitstop.tune.inside.script import Script

CALLING = {"_wrapped_call_impl", "_call_impl", "inner"}  # torch's functions that call a module
OURS = {"profile", "tune"}  # may stand in between, too


@change(
    "rounding",
    helps=("time", "memory"),
    toggles=True,
    when=When(useless=no_weights_written, usual=0.05),
)
def no_attention_weights(script: "Script") -> None:
    """Let MultiheadAttention use one fused kernel where nobody reads the weights it returns.

    It pays with many tokens: the weights of each head are a matrix of tokens by tokens. That nobody
    reads them must show in the line that calls it, and no hook may be there that could. Dropout of
    the weights falls elsewhere. What is compiled stays as it is, and so does what torch runs in one
    kernel anyway, without gradients. The fused kernel cannot be differentiated twice.
    """
    torch = script.torch
    forward = torch.nn.MultiheadAttention.forward.__code__
    script.needs("MultiheadAttention whose weights nobody reads")

    def around(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        frame = _above_ours(sys._getframe())
        if frame is None or frame.f_code is not forward or not named.get("need_weights"):
            return original(*given, **named)
        attention = frame.f_locals["self"]
        if _hooks(attention, torch) or not _reads_nothing(frame.f_back):
            return original(*given, **named)
        if attention.training and attention.dropout:
            script.draws_otherwise()
        script.applied()
        return original(*given, **named | {"need_weights": False})

    script.patch(torch.nn.functional, "multi_head_attention_forward", around)


def _above_ours(frame: FrameType | None) -> FrameType | None:
    """The frame that has called what we stand for; some of ours may lie between."""
    while frame is not None and room_of("pitstop", frame.f_code.co_filename) in OURS:
        frame = frame.f_back
    return frame


def _hooks(module: Any, torch: Any) -> bool:
    """Whether the script has hooks that are shown what a module returns."""
    from pitstop import internals  # noqa: PLC0415 needs torch

    of_all = internals.global_forward_hooks(torch.nn.modules.module).values()
    return bool(internals.forward_hooks(module)) or not all(map(_is_ours, of_all))


def _is_ours(hook: Any) -> bool:
    function = getattr(hook, "func", hook)  # of a partial
    return str(getattr(function, "__module__", "")).startswith("pitstop.")


def _reads_nothing(frame: FrameType | None) -> bool:
    """Whether the line that called a module drops the weights that this returns."""
    while frame is not None:
        path = frame.f_code.co_filename
        if room_of("torch", path):
            if frame.f_code.co_name not in CALLING:
                return False  # a container of torch's, which may hand them on
        elif room_of("pitstop", path) not in OURS:
            return _drops(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return False


@cache
def _drops(code: CodeType, instruction: int) -> bool:
    """Likewise, by the place of the call in compiled code."""
    from pitstop.scan.attention_weights import drops_weights  # noqa: PLC0415 seldom needed

    source = _source(code.co_filename)
    _, line, _, column = next(islice(code.co_positions(), instruction // 2, None))
    return source is not None and any(
        drops_weights(source, call)
        for call in source.nodes(ast.Call)
        if (call.end_lineno, call.end_col_offset) == (line, column)
    )


@cache
def _source(path: str) -> "Source | None":
    """A file as it is, parsed once for all calls in it; of a cell, what a notebook says it is."""
    from pitstop.scan.source import Source  # noqa: PLC0415 likewise

    try:
        return Source("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None
