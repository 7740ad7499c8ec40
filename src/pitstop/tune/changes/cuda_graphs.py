"""Change `cuda-graphs`."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import Facts, When, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import OneOf
from pitstop.tune.ruled_out import launches_in_time

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

ENOUGH = 16  # calls of each; by then a graph has been captured, or will never be
RARE = 0.5  # of the calls, at most: as many are the first of their kind where each is another
MOST_GRAPHS = 32  # of a model: a search tries many sets of changes, each with graphs of its own
FIRST_CALLS = 1  # as they are: the untouched steps before are a warm-up, too

WHEN = When(
    device="cuda", useless=launches_in_time, beside=("channels-last", "fused-group-norm")
)  # what a GPU gains shows where it does not wait for launches


def variants(_: Facts) -> Iterator[Options]:
    """The whole model; its repeated blocks, for models that cannot be captured as a whole."""
    yield {}
    yield {"scope": "blocks"}


@change(
    "exact",
    toggles=True,
    variants=variants,
    when=WHEN,
    ranges={"scope": OneOf(("whole", "blocks"))},
)
def cuda_graphs(script: "Script") -> None:
    """Launch all kernels of a model at once: its calls are captured as CUDA graphs and replayed.

    It pays where a GPU waits for Python to launch many small kernels. The kernels and their numbers
    are the same. Calls of rare shapes run as they are, and so do models that cannot be replayed:
    with the scope `blocks` each of their repeated blocks has graphs of its own.
    """
    every: list[Any] = []
    blocks = script.options.get("scope") == "blocks"

    def put_on(module: Any, graphs: Any) -> None:
        every.append(graphs)

        def around(call: Callable[..., Any], _: Any, *given: Any, **named: Any) -> Any:
            answer = graphs.around(call, *given, **named)
            _check(script, every)
            return answer

        script.wrap(module, around)
        script.applied()

    def set_up(model: Any) -> None:
        from pitstop.parts.graphs import Graphs, graphs_of_blocks  # noqa: PLC0415 needs torch

        given: dict[str, Any] = {
            "most": MOST_GRAPHS,
            "first": FIRST_CALLS,
            "variant": script.together,
            "come_back": script.toggled,  # a layout that is switched off and on
        }
        if not blocks:
            put_on(model, Graphs(model, say=lambda _: None, **given))
            return
        for block, graphs in graphs_of_blocks(model, lambda _: None, **given):
            put_on(block, graphs)

    script.on_cuda_model(set_up)
    if blocks:
        script.needs("model on a GPU has blocks that repeat")


def _check(script: "Script", every: list[Any]) -> None:
    """Decline where most calls run as they are, with what stands against it most often."""
    from pitstop.parts.graphs import Reason  # noqa: PLC0415 needs torch

    calls, replayed = (sum(getattr(each, name) for each in every) for name in ("calls", "replayed"))
    reasons: Counter[Reason] = sum((each.reasons for each in every), Counter())
    first = reasons.pop(Reason.FIRST, 0)
    others = calls - replayed - first
    enough = ENOUGH * len(every)
    if calls < enough or (others <= replayed and first <= max(enough, RARE * calls)):
        return
    reason = max(reasons, key=lambda each: reasons[each], default=Reason.RARE)
    script.decline(f"replayed {replayed} of {calls} calls: {reason.value}")
    for each in every:
        each.forget()
