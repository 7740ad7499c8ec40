"""Change `ddp`."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitstop.core.evidence import Evidence
from pitstop.profile.source.lines import origin_of
from pitstop.tune.change import Facts, When, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import OneOf

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

WRAPPER = "DistributedDataParallel"
READS = re.compile(r"\.grad\b")  # gradients, by themselves: nobody may find them unaveraged


def useless(evidence: Evidence) -> str:
    """A reason where models ran and none of them is shared by ranks; else empty."""
    shared = any(each.kind == WRAPPER for each in evidence.calls)
    return "" if shared or not evidence.calls else f"nothing is a {WRAPPER}"


def variants(_: Facts) -> Iterator[Options]:
    """What is safe for any graph; then a graph that never changes."""
    yield {}
    yield {"static_graph": True}


@change(
    "rounding",
    helps=("time", "memory"),
    variants=variants,
    when=When(work="training", useless=useless),
    ranges={"static_graph": OneOf((True, False))},
)
def ddp(script: "Script") -> None:
    """Let DistributedDataParallel copy, send and search no more than it must.

    Gradients live in the buckets that are sent. Buffers that nobody writes into are not sent again.
    Where gradients of several batches add up, only the last backward pass sends them; the first
    steps tell which one that is. A script that reads gradients by itself keeps the first and the
    last. With `static_graph` the parameters that are used are found once, not in each step.
    """
    script.needs(WRAPPER)
    if not script.torch.distributed.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415 needs torch

    from pitstop.tune.inside.ddp import Ranks  # noqa: PLC0415 likewise

    def build(original: Callable[..., Any], model: Any, *given: Any, **named: Any) -> Any:
        ranks = Ranks(script, reads_gradients())
        original(model, *given, **ranks.arguments(given, named))
        ranks.built(model)

    script.patch(DistributedDataParallel, "__init__", build)


def reads_gradients() -> bool:
    """Whether any file of the user's that is loaded does."""
    paths = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
    return any(READS.search(_text(path)) for path in paths if path and origin_of(path) == "user")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
