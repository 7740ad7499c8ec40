"""Change `allocator` in the source: it has no place there."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.changes.allocator import environment
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.plan import Options


def allocator(_: Sites, options: Options) -> Iterator[Edit | Left]:
    """It is read before the script is: only the environment can set it."""
    for name, value in environment(options).items():
        yield Left(f"is read before the script runs: set {name}={value} in its environment")
