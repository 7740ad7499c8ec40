"""Change `leave-out`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.tune.change import Facts, When, change
from pitstop.tune.left_out import wanted
from pitstop.tune.plan import Options

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


def variants(facts: Facts) -> Iterator[Options]:
    """One for each place that computes what nobody needs."""
    return wanted.options(facts.evidence)


@change(
    "exact",
    toggles=True,
    variants=variants,
    when=When(work="training", usual=0.0, what_if=True),
)
def leave_out(script: "Script") -> None:
    """Leave out calls whose result nobody needs, to learn what an edit of the source is worth.

    Nothing depends on their result, or it is multiplied by zero. Stand-ins of the right shape take
    its place, with gradients of zero behind them. It is tried only, and never kept: a weight that
    is zero now may not stay so. The edit of the source is what makes it permanent.
    """
    from pitstop.tune.left_out.calls import Calls  # noqa: PLC0415 which needs torch

    options = script.options
    why: wanted.Why = "zero" if options.get("why") == "zero" else "unused"
    calls = Calls(script, wanted.read_calls(str(options.get(wanted.CALLS, "[]"))), why)
    script.needs("step like the recorded one")
    script.spares_calls = True
    script.on_step_ended(calls.step_ended)
    script.patch(script.torch.autograd, "backward", calls.backward)
