"""Change `bf16` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.autocasting import autocast
from pitstop.tune.plan import Options
from pitstop.tune.sites import Left, Sites


def bf16(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Autocast around the statements from the model's call to the backward pass."""
    yield from autocast(sites, "bfloat16")
