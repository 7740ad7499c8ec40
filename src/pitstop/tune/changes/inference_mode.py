"""Change `inference-mode`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import Facts, When, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import OneOf
from pitstop.tune.ruled_out import no_graph

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script
RANGES = {"mode": OneOf(("inference", "no-grad"))}


def variants(facts: Facts) -> Iterator[Options]:  # noqa: ARG001 the same for any script
    """Inference mode, and no_grad for scripts that go on with the results in ways it forbids."""
    yield {"mode": "inference"}
    yield {"mode": "no-grad"}


@change(
    "exact",
    helps=("time", "memory"),
    toggles=True,
    variants=variants,
    ranges=RANGES,
    when=When(work="inference", useless=no_graph, usual=0.05),
)
def inference_mode(script: "Script") -> None:
    """Record nothing for a backward pass that never comes.

    It pays in memory first, and in time where operations are small. From the first call of a model
    on the whole script is in that mode, as if its main function were decorated. While it is timed
    by toggling, no_grad stands in for it: tensors made in inference mode do not survive its end.
    """
    torch = script.torch
    mode = ExitStack()
    entered: list[None] = []
    script.needs("model was called with gradients on")

    def enter() -> None:
        no_grad = script.toggled or script.options.get("mode") == "no-grad"
        mode.enter_context(torch.no_grad() if no_grad else torch.inference_mode())

    def set_up(_: object) -> None:
        if torch.is_grad_enabled() and not entered:
            entered.append(None)
            script.switch(enter, mode.close)
            script.applied()

    def differentiate(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        script.decline("the script needs gradients")
        return original(*given, **named)

    script.on_model(set_up)
    script.on_optimizer_built(lambda _: script.decline("the script trains"))
    script.patch(torch.autograd, "backward", differentiate)
    script.patch(torch.autograd, "grad", differentiate)
