"""Change `cudnn-benchmark` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.tune.plan import Options
from pitstop.tune.sites import Left, Sites, configure


def cudnn_benchmark(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Where the source sets it, or below the imports."""
    yield from configure(sites, "torch.backends.cudnn.benchmark", "True")
