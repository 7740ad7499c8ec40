"""Change `batch-size`."""

from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import Facts, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import Whole

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script
RANGES = {"factor": Whole(2, 64)}


def variants(facts: Facts) -> Iterator[Options]:  # noqa: ARG001 the same for any script
    """Twice as many."""
    yield {"factor": 2}


@change("changes-training", variants=variants, ranges=RANGES)
def batch_size(script: "Script") -> None:
    """Put more samples into each batch: fewer and larger steps, which are to be judged per sample.

    It pays where steps are too small to fill the device. Training takes another course: the
    learning rate and the number of steps have to be chosen anew.
    """
    factor = int(script.options.get("factor", 2))
    script.needs("DataLoader with a batch size and enough samples")

    def edit(arguments: dict[str, Any], _: Any) -> None:
        size = arguments.get("batch_size", 1)
        dataset = arguments["dataset"]
        enough = not isinstance(dataset, Sized) or len(dataset) >= factor * (size or 1)
        if size and enough and arguments.get("batch_sampler") is None:
            arguments["batch_size"] = factor * size
            script.applied()

    script.on_loader(edit)
