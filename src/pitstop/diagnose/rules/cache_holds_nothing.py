"""PIT113 cache-holds-nothing."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.loading import wait_for_data
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span


@rule("PIT113")
def cache_holds_nothing(recording: Recording) -> Iterator[Finding]:
    """A dataset has a cache, every epoch finds it empty, and the steps wait for data.

    With workers each of them fills a copy of its own, and the copies end with the epoch unless
    the workers persist. Without workers nothing was ever put in: a key that differs, a flag that
    is off, an early return. Fill it before the loader is built, or keep the workers.

    Bad:
        loader = torch.utils.data.DataLoader(CachedClips(folder), num_workers=4)

    Good:
        loader = torch.utils.data.DataLoader(
            CachedClips(folder), num_workers=4, persistent_workers=True
        )
    """
    wait = wait_for_data(recording)
    if wait is None or not wait.long or wait.loader.persistent:
        return
    loader = wait.loader
    workers = count(loader.workers, "worker")
    lost = f"each of {workers} fills its own copy and takes it away with it"
    for cache in loader.caches:
        if not cache.entries:
            yield Finding(
                f"`{cache.name}` of `{loader.dataset}` is empty at the start of every epoch: "
                f"{lost if loader.workers else 'nothing was put in'}; the step waits {wait.words}.",
                span=span(cache.made),
                cure="persistent_workers=True, or fill it before the loader is built"
                if loader.workers
                else "look at what should fill it: its key, its flag, its limit",
                confidence="measured",
                metrics=(Metric("epochs", loader.starts, "epochs"), *wait.metrics),
                saving=wait.share,
                claims=wait.claims,
                changes=("loader", "ram-cache") if loader.workers else ("ram-cache",),
            )
