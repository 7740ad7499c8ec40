"""Story: what a repeated step has shown, in one line."""

from collections.abc import Sequence
from itertools import pairwise

from pitstop.core.evidence import NonFinite
from pitstop.core.units import count

FEW = 8  # indices that are written out
OF_THE_OPERATION = ("of ", "by ", "over ", "with ", "whose ")  # how such a detail begins


def story(found: NonFinite | None, samples: Sequence[int], dataset: str, bad: int = 0) -> str:
    """Who made the first bad number, where, and from which samples; ``bad`` numbers are theirs."""
    batch = f"; its batch: {_ranges(samples)} of {dataset}" if samples else ""
    if bad and not (found and found.phase == "input"):
        are = "is" if bad == 1 else "are"
        return f"{count(bad, 'number')} of the batch {are} not finite{batch}"
    if found is None:
        return f"the step was repeated and its numbers were finite{batch}"
    if found.phase == "weights":
        batch = ""  # any other would have been as bad
    where = f" ({found.where.path}:{found.where.line})" if found.where.path else ""
    return f"{_who(found)}{where}{batch}"


def _who(found: NonFinite) -> str:
    operation = f"`{found.operation}`" if found.operation else "an operation"
    beside = found.detail.startswith(OF_THE_OPERATION)
    who = f"{operation} {found.detail}" if beside and found.detail else operation
    end = f": {found.detail}" if found.detail and not beside else ""
    module = f" in `{found.module}`" if found.module else ""
    told = {
        "input": f"the batch that goes into `{found.module or 'the model'}` is not finite{end}",
        "forward": f"{who}{module} gives the first result that is not finite{end}",
        "backward": f"the gradient of {who}{module} is the first that is not finite{end}",
        "weights": f"the weights{module} had gone astray{end}",
    }
    return told.get(found.phase, f"no operation could be blamed{end}")


def _ranges(samples: Sequence[int]) -> str:
    """``samples 232 to 239``, or the numbers one by one."""
    if len(samples) > 1 and all(after - before == 1 for before, after in pairwise(samples)):
        return f"samples {samples[0]} to {samples[-1]}"
    if len(samples) <= FEW:
        return f"sample{'s' * (len(samples) > 1)} {', '.join(map(str, samples))}"
    rest = count(len(samples) - FEW, "other")
    return f"samples {', '.join(map(str, samples[:FEW]))} and {rest}"
