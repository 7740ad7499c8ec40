"""Change `loader`."""

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pitstop.core.evidence import Evidence
from pitstop.tune.change import Facts, When, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import Whole
from pitstop.tune.ruled_out import data_is_there

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

MOST_WORKERS = 16  # more than that only fill memory
TRIED = 3  # numbers of workers: all cores, half of them, a quarter
MARGIN = 2  # times as many as are needed at least: samples differ, and workers have one thread each
RANGES = {"workers": Whole(1, 128), "prefetch": Whole(1, 64)}  # each is a process, or batches


def variants(facts: Facts) -> Iterator[Options]:
    """A quarter of the cores, half of them, all of them; first the fewest that should do."""
    most = min(facts.cores, MOST_WORKERS)
    enough = MARGIN * needed(facts.evidence)
    tried = {max(1, most >> half) for half in range(TRIED)}
    for workers in sorted(tried, key=lambda each: (each < enough, abs(each - enough))):
        yield {"workers": workers}


def needed(evidence: Evidence) -> float:
    """So many workers would read a batch in the time that the rest of a step takes."""
    if not evidence.steady:
        return 0.0
    own = _own_workers(evidence)
    if own and data_is_there(evidence):
        return own / MARGIN  # those will do
    step_ms, wait_ms = evidence.mean_ms("total_ms"), evidence.mean_ms("data_wait_ms")
    rest_ms = max(step_ms - wait_ms, 0.01 * step_ms)
    reading_ms = own * step_ms if own else wait_ms
    return reading_ms / rest_ms


def _own_workers(evidence: Evidence) -> int:
    """The most that a loader of the script has by itself."""
    return max((each.workers for each in evidence.loaders if each.batches), default=0)


@change(
    "other-randomness",
    variants=variants,
    ranges=RANGES,
    when=When(useless=data_is_there, usual=0.02),
)
def loader(script: "Script") -> None:
    """Read and decode batches in worker processes, which live on from epoch to epoch.

    With a GPU the batches also lie in pinned memory. It pays where steps wait for data. The order
    of the batches stays the same; what the dataset draws at random does not. In a patched source
    shuffling differs from the second epoch on, as surviving workers save one draw in each epoch.
    """
    torch = script.torch
    ours: WeakSet[Any] = WeakSet()  # loaders whose workers die after each epoch without us
    script.needs("DataLoader")

    def edit(arguments: dict[str, Any], loader: Any) -> None:
        if reason := _obstacle(arguments, torch):
            script.needs(f"DataLoader that could have workers: {reason}")
            return
        if not arguments.get("persistent_workers"):
            ours.add(loader)
        arguments["num_workers"] = script.options.get("workers", 1)
        arguments["persistent_workers"] = True
        if "prefetch" in script.options:
            arguments["prefetch_factor"] = script.options["prefetch"]
        if torch.cuda.is_available():
            arguments["pin_memory"] = True
        script.applied()

    def restart(
        original: Callable[..., None], iterator: Any, loader: Any, first_iter: bool = False
    ) -> None:
        if not first_iter and loader in ours:  # new workers would have drawn their seed here
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        original(iterator, loader, first_iter)

    from pitstop import internals  # noqa: PLC0415 needs torch

    script.on_loader(edit)
    script.patch(internals.WorkersIterator, "_reset", restart)


def _obstacle(arguments: dict[str, Any], torch: Any) -> str:
    """Why this loader must stay as it is."""
    dataset = arguments["dataset"]
    if isinstance(dataset, torch.utils.data.IterableDataset) and not arguments.get("num_workers"):
        return "each worker would read the whole of an IterableDataset"
    context = arguments.get("multiprocessing_context") or multiprocessing.get_context()
    if "fork" in {context, getattr(context, "get_start_method", str)()}:
        return ""
    try:
        for name in ("dataset", "collate_fn", "worker_init_fn"):
            ForkingPickler(_Nowhere()).dump(arguments.get(name))
    except Exception as error:  # noqa: BLE001 pickling may raise anything
        return f"it cannot be sent to them ({type(error).__name__}: {error})".splitlines()[0]
    return ""


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        """Forget it."""
        return len(data)
