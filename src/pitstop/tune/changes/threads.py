"""Change `threads`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pitstop.tune.change import Facts, When, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import Whole

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script
RANGES = {"threads": Whole(1, 512)}  # the cores of the largest machines; none needs more


def variants(facts: Facts) -> Iterator[Options]:
    """All cores, and half of them: hyper-threads of one core share its arithmetic."""
    for threads in sorted({facts.cores, max(1, facts.cores // 2)}, reverse=True):
        yield {"threads": threads}


@change("rounding", toggles=True, variants=variants, ranges=RANGES, when=When(device="cpu"))
def threads(script: "Script") -> None:
    """Compute on as many CPU threads as there are cores to use, or on half as many.

    It pays on a CPU whose count of threads was set for another machine: by an environment variable,
    or by torch, which counts cores that a container does not give.
    """
    torch = script.torch
    wanted = int(script.options["threads"])
    script.needs("model was called")

    def set_up(_: object) -> None:
        before = torch.get_num_threads()
        if before == wanted:
            if not done:
                script.decline(f"it runs on {wanted} already")
            return
        done.append(None)
        script.switch(lambda: torch.set_num_threads(wanted), lambda: torch.set_num_threads(before))
        script.applied()

    done: list[None] = []
    script.on_model(set_up)
