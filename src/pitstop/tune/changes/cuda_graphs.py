"""Change `cuda-graphs`."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.seen import launches_in_time

if TYPE_CHECKING:
    from pitstop.tune.script import Script

ENOUGH = 16  # calls; by then a graph has been captured, or will never be
RARE = 0.5  # of the calls, at most: as many are the first of their kind where each is another
MOST_GRAPHS = 32  # of a model: a search tries many sets of changes, each with graphs of its own
FIRST_CALLS = 1  # as they are: the untouched steps before are a warm-up, too

WHEN = When(
    device="cuda", useless=launches_in_time, beside=("channels-last", "fused-group-norm")
)  # what a GPU gains shows where it does not wait for launches


@change("exact", toggles=True, when=WHEN)
def cuda_graphs(script: "Script") -> None:
    """Launch all kernels of a model at once: its calls are captured as CUDA graphs and replayed.

    It pays where a GPU waits for Python to launch many small kernels. The kernels and their numbers
    are the same. Calls of rare shapes run as they are, and so do models that cannot be replayed.
    """
    every: list[Any] = []

    def set_up(model: Any) -> None:
        from pitstop.parts.graphs import Graphs  # noqa: PLC0415 needs torch

        graphs = Graphs(
            model,
            most=MOST_GRAPHS,
            first=FIRST_CALLS,
            say=lambda _: None,
            variant=script.together,
        )
        every.append(graphs)

        def around(call: Callable[..., Any], _: Any, *given: Any, **named: Any) -> Any:
            answer = graphs.around(call, *given, **named)
            _check(script, every)
            return answer

        script.wrap(model, around)
        script.applied()

    script.on_cuda_model(set_up)


def _check(script: "Script", every: list[Any]) -> None:
    """Decline where most calls run as they are, with what stands against it most often."""
    from pitstop.parts.graphs import Reason  # noqa: PLC0415 needs torch

    calls, replayed = (sum(getattr(each, name) for each in every) for name in ("calls", "replayed"))
    reasons: Counter[Reason] = sum((each.reasons for each in every), Counter())
    first = reasons.pop(Reason.FIRST, 0)
    others = calls - replayed - first
    if calls < ENOUGH or (others <= replayed and first <= max(ENOUGH, RARE * calls)):
        return
    reason = max(reasons, key=lambda each: reasons[each], default=Reason.RARE)
    script.decline(f"replayed {replayed} of {calls} calls: {reason.value}")
    for each in every:
        each.forget()
