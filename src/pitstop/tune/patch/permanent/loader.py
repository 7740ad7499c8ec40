"""Change `loader` in the source."""

from collections.abc import Iterator

from pitstop.core.evidence import Loader
from pitstop.core.finding import Edit
from pitstop.tune.patch.arguments import give, loader_calls
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options


def loader(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Workers and what belongs to them, as arguments of every DataLoader."""
    for found in loader_calls(sites):
        if isinstance(found, Left):
            yield found
        elif found.loader.length is None and not found.loader.workers:
            yield Left(f"each worker would read the whole dataset of {found.where}: shard it there")
        else:
            wanted = _wanted(found.loader, options, sites.device)
            yield from in_file(found.source, give(found.source, found.call, wanted))


def _wanted(loader: Loader, options: Options, device: str) -> dict[str, str]:
    wanted = {"num_workers": str(options.get("workers", 1))}
    if device == "cuda" and not loader.pinned:
        wanted["pin_memory"] = "True"
    if not loader.persistent:
        wanted["persistent_workers"] = "True"
    if "prefetch" in options:
        wanted["prefetch_factor"] = str(options["prefetch"])
    return wanted
