"""Change `no-attention-weights`."""

import ast
import linecache
import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from pitstop.profile.lines import room_of
from pitstop.tune.change import When, change
from pitstop.tune.seen import no_weights_written

if TYPE_CHECKING:
    from pitstop.tune.script import Script

NEED_WEIGHTS = 4  # its place among the arguments of forward
CALLING = {"_wrapped_call_impl", "_call_impl", "inner"}  # torch's functions that call a module
OURS = {"profile", "tune"}  # may stand in between, too


@change("rounding", helps=("time", "memory"), toggles=True, when=When(useless=no_weights_written))
def no_attention_weights(script: "Script") -> None:
    """Let MultiheadAttention use one fused kernel where nobody reads the weights it returns.

    It pays with many tokens: the weights of each head are a matrix of tokens by tokens. That nobody
    reads them must show in the line that calls it; a hook might. Their dropout falls elsewhere.
    """
    script.needs("MultiheadAttention whose weights nobody reads")

    def around(original: Callable[..., Any], attention: Any, *given: Any, **named: Any) -> Any:
        asked = len(given) > NEED_WEIGHTS or "need_weights" in named
        if asked or attention._forward_hooks or not _reads_nothing(sys._getframe(1)):
            return original(attention, *given, **named)
        script.applied()
        if attention.training and attention.dropout:
            script.draws_otherwise()
        return original(attention, *given, **named, need_weights=False)

    script.patch(script.torch.nn.MultiheadAttention, "forward", around)


def _reads_nothing(frame: FrameType | None) -> bool:
    """Whether the line that called a module drops all but the first of its results."""
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
    """Whether a call, by its place in compiled code, drops all but the first of its results."""
    from pitstop.scan.first_only import takes_first_only  # noqa: PLC0415 only where it is needed
    from pitstop.scan.source import Source  # noqa: PLC0415 likewise

    _, line, _, column = next(islice(code.co_positions(), instruction // 2, None))
    try:
        source = Source("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return False
    return any(
        takes_first_only(source, call)
        for call in source.nodes(ast.Call)
        if (call.end_lineno, call.end_col_offset) == (line, column)
    )
