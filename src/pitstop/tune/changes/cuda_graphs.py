"""Change `cuda-graphs`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.seen import launches_in_time

if TYPE_CHECKING:
    from pitstop.tune.script import Script

ENOUGH = 16  # calls; by then a graph has been captured, or will never be
FEW = 0.5  # of the calls: the others would wait for launches as before


@change(
    "exact",
    toggles=True,
    when=When(device="cuda", useless=launches_in_time, rivals=("compile",)),
)
def cuda_graphs(script: "Script") -> None:
    """Launch all kernels of a model at once: its calls are captured as CUDA graphs and replayed.

    It pays where a GPU waits for Python to launch many small kernels. The kernels and their numbers
    are the same. Calls of rare shapes run as they are, and so do models that cannot be replayed.
    """
    every: list[Any] = []

    def set_up(model: Any) -> None:
        from pitstop.parts.graphs import Graphs  # noqa: PLC0415 needs torch

        graphs = Graphs(model, say=lambda _: None)
        every.append(graphs)
        script.needs("call of a model was replayed")

        def around(call: Callable[..., Any], _: Any, *given: Any, **named: Any) -> Any:
            before = graphs.replayed
            answer = graphs.around(call, *given, **named)
            if graphs.replayed > before == 0:
                script.applied()
            _check(script, every)
            return answer

        script.wrap(model, around)

    script.on_cuda_model(set_up)


def _check(script: "Script", every: list[Any]) -> None:
    """Decline where most calls run as they are, with what stands against it most often."""
    calls, replayed = (sum(getattr(each, name) for each in every) for name in ("calls", "replayed"))
    if calls < ENOUGH or replayed >= FEW * calls:
        return
    reasons = sum((each.reasons for each in every[1:]), every[0].reasons)
    (reason, _), *_ = reasons.most_common(1)
    script.decline(f"replayed {replayed} of {calls} calls: {reason.value}")
    for each in every:
        each.forget()
