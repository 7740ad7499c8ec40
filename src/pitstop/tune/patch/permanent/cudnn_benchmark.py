"""Change `cudnn-benchmark` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.patch.sites import Left, Sites, configure
from pitstop.tune.plan import Options


def cudnn_benchmark(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Where the source sets it, or below the imports."""
    yield from configure(sites, "torch.backends.cudnn.benchmark", "True")
