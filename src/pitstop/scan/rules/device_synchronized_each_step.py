"""PIT213 device-synchronized-each-step."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.call_graph import is_test
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source

WAITS = tuple(f"torch.{device}.synchronize" for device in ("cuda", "xpu", "mps", "npu"))
# Whoever takes the time has to wait for what is timed.
TIMES = re.compile(
    r"time\.(?:time|perf_counter|monotonic)\(|elapsed_time|Event\(|timer|default_timer"
)
MEASURES = re.compile(r"bench|throughput|profil|latency|speed|fps|timing|time_", re.IGNORECASE)


@rule("PIT213")
def device_synchronized_each_step(source: Source) -> Iterator[Finding]:
    """Every step waits until the GPU has finished all that was queued.

    Python queues the next kernels while the GPU computes; `synchronize` gives that lead away, and
    the GPU idles until the next step has begun. Kernels of one stream run in order without it.
    Needed where time is taken, or where memory is shared with something outside of torch.

    Bad:
        for batch in train_loader:
            model(batch).mean().backward()
            optimizer.step()
            torch.cuda.synchronize()

    Good:
        for batch in train_loader:
            model(batch).mean().backward()
            optimizer.step()
    """
    if is_test(source.path) or MEASURES.search(source.path):
        return
    for call in source.calls(*WAITS):
        hot = source.hot(call)
        if hot is None or hot.guarded or hot.kind not in ("step", "frame"):
            continue
        if not is_rare(source, call, hot) and not _is_timed(source, call):
            message = f"Every {hot.kind} waits until the GPU has finished ({hot.reason})."
            yield source.finding(call, message, confidence="suspected")


def _is_timed(source: Source, call: ast.Call) -> bool:
    """Whether a clock is read right beside it, or the function says that it measures."""
    function = source.enclosing_function(call)
    if function is not None and MEASURES.search(function.name):
        return True
    statement = source.statement(call)
    body = getattr(source.parent(statement), "body", [])
    index = body.index(statement) if statement in body else 0
    return any(TIMES.search(source.text_of(each)) for each in body[max(index - 1, 0) : index + 2])
