"""Change `checkpointing-on` in the source: by hand."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.plan import Options


def checkpointing_on(_: Sites, __: Options) -> Iterator[Edit | Left]:
    """A model calls its blocks in too many ways to rewrite them for certain."""
    yield Left(
        "models call their blocks in too many ways: where block(x) is called, write "
        "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"
    )
