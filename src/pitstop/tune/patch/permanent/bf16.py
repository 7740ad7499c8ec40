"""Change `bf16` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.patch.autocasting import autocast
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.plan import Options


def bf16(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Autocast around the statements from the model's call to the backward pass."""
    yield from autocast(sites, "bfloat16")
