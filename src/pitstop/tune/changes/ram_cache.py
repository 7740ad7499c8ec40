"""Change `ram-cache`."""

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence
from pitstop.tune.change import When, change
from pitstop.tune.plan import Options
from pitstop.tune.ruled_out import data_is_there

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


def takes_s(evidence: Evidence, _: Options) -> float:
    """Reading every sample once, as slowly as the script has read them so far."""
    read = [each for each in evidence.loaders if each.trains] or evidence.loaders
    known = [each for each in read if each.length and each.batch_size]
    if not known or not evidence.steady:
        return 0.0
    loader = max(known, key=lambda each: each.batches)
    batch_ms = evidence.mean_ms("total_ms" if loader.workers else "data_wait_ms")
    return (loader.length or 0) / (loader.batch_size or 1) * batch_ms / 1e3


@change("exact", when=When(useless=data_is_there, takes_s=takes_s, late=True, usual=0.02))
def ram_cache(script: "Script") -> None:
    """Read every sample once before training, and keep it in memory, once for all workers.

    It pays where samples are decoded anew in each epoch and all of them fit into memory. What the
    dataset draws at random would be frozen: such a dataset is left alone. The same object stays in
    the script's hands, with all its attributes.
    """
    from pitstop.parts import ram_cache as kept_in_memory  # noqa: PLC0415 it needs torch

    known: WeakSet[Any] = WeakSet()
    script.needs("DataLoader")

    def edit(arguments: dict[str, Any], _: Any) -> None:
        dataset = arguments["dataset"]
        if dataset in known:
            return
        try:
            cache = kept_in_memory(dataset)
            own, serving = type(dataset), _serving(type(dataset), cache)
            script.switch(
                lambda: setattr(dataset, "__class__", serving),
                lambda: setattr(dataset, "__class__", own),
            )
        except (PitstopError, TypeError) as error:
            script.needs(f"dataset that can be kept in memory: {error}")
            return
        known.add(dataset)
        script.applied()

    script.on_loader(edit)


def _serving(kind: Any, cache: Any) -> type:
    """The dataset's class, but for reading: what is in memory is not read again."""
    dataset, cache.dataset = cache.dataset, None

    def get(self: Any, index: Any) -> Any:
        return cache[index] if cache.holds(index) else kind.__getitem__(self, index)

    own = {"__getitem__": get, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if hasattr(dataset, "__getitems__"):
        own["__getitems__"] = lambda self, indices: [get(self, each) for each in indices]
    return type(kind.__name__, (kind,), own)
