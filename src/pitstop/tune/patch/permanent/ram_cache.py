"""Change `ram-cache` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.plan import Options


def ram_cache(_: Sites, __: Options) -> Iterator[Edit | Left]:
    """Which line makes a dataset, and who else holds it, is not known from outside."""
    yield Left(
        "write `dataset = ram_cache(dataset)` where it is made, with `from pitstop.parts import "
        "ram_cache`; its own attributes are at `dataset.dataset` then"
    )
