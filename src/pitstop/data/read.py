"""Read a dataset: walk it, tell its layout, open a sample of its files. Runs nothing of it."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

from pitstop.data.dataset import Dataset, Examples, Problem, Store
from pitstop.data.gather import MOST_REMEMBERED, Gathered, problems
from pitstop.data.layout import Arranged, arrange
from pitstop.data.listings import missing_from_lists
from pitstop.data.look import LARGEST_BYTES, Job, Look, look_at_all
from pitstop.data.partners import absent
from pitstop.data.sample import chosen
from pitstop.data.stores import stores_of
from pitstop.data.twins import clips_in_two_splits
from pitstop.data.walk import Walk, more
from pitstop.data.wording import named

CHUNK = 16  # files per message: few messages, and a bar that moves
FEWEST_FOR_PROCESSES = 64  # files; below that, starting processes takes longer
USUAL_WINDOW = 5  # frames of a training clip, where nobody says how many
Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the user means to do with the dataset."""

    window: int | None = None
    batch: int = 1
    step_ms: float | None = None
    crop: int | None = None
    sample: int = 5000  # files opened; 0: all
    cores: int = 1
    memory_bytes: int = 0


def read_dataset(
    root: Path, plan: Plan | None = None, tick: Tick = lambda _: None, begin: Tick = lambda _: None
) -> Dataset:
    """The dataset in a folder; ``begin`` hears how many files are opened, ``tick`` of each."""
    plan = plan or Plan()
    walk = Walk(root)
    folders = tuple(walk.folders())
    arranged = arrange(folders)
    files = sum(place.count for place in arranged.places)
    begin(min(files, plan.sample or files))
    gathered, lost = Gathered(arranged.places), Examples()
    for look in _looks(root, chosen(root, arranged.places, plan.sample), plan.cores, tick):
        if isinstance(look, Job):
            lost = more(lost, look.path)
        else:
            gathered.add(look)
    stores = tuple(stores_of(root, folders))
    skipped = [*walk.skipped, *_lost(lost), *_left_out(gathered)]
    missing = missing_from_lists(root, folders)
    return _dataset(root, plan, arranged, gathered, stores, missing, walk, skipped)


def _dataset(
    root: Path,
    plan: Plan,
    arranged: Arranged,
    gathered: Gathered,
    stores: tuple[Store, ...],
    missing: list[Problem],
    walk: Walk,
    skipped: list[str],
) -> Dataset:
    places = arranged.places
    window = plan.window or (USUAL_WINDOW if arranged.layout in {"clips", "videos"} else 1)
    clips = clips_in_two_splits(root, places)
    leaked = (("clip", clips),) if clips else (("picture", gathered.leaked),)
    return Dataset(
        layout=arranged.layout,
        places=places,
        splits=arranged.splits,
        roles=gathered.described(),
        stores=stores,
        files=sum(place.count for place in places),
        bytes=sum(files.bytes for place in places for files in place.folder.files),
        opened=gathered.opened,
        zero_length=walk.zero_length,
        absent=(*missing, *absent(root, places, arranged.layout), *_of(stores, "absent")),
        unreadable=(
            *_unless_none("links to files that are not there", walk.dangling),
            *problems(gathered.troubles),
            *_of(stores, "unreadable"),
        ),
        non_finite=(*problems(gathered.bad), *_of(stores, "non_finite")),
        unlike=tuple(gathered.unlike()),
        unequal=tuple(gathered.unequal()) if arranged.layout != "unpaired" else (),
        black=tuple(gathered.black()),
        same=problems(gathered.same),
        leaked=tuple(Problem(what, examples) for what, examples in leaked if examples),
        video_frames=gathered.video_frames,
        video_lengths=tuple(sorted(gathered.video_lengths.items())),
        modes=tuple(gathered.modes()),
        window=window,
        window_given=plan.window is not None,
        batch=plan.batch,
        step_ms=plan.step_ms,
        crop=plan.crop,
        cores=plan.cores,
        memory_bytes=plan.memory_bytes,
        skipped=tuple(skipped),
    )


def _unless_none(what: str, files: Examples) -> tuple[Problem, ...]:
    return (Problem(what, files),) if files else ()


def _of(stores: tuple[Store, ...], what: str) -> tuple[Problem, ...]:
    return tuple(problem for store in stores for problem in getattr(store, what))


def _looks(root: Path, jobs: Iterator[Job], cores: int, tick: Tick) -> Iterator[Look | Job]:
    """A look at each, or the job itself where its decoder has crashed; few wait at a time."""
    few = list(islice(jobs, FEWEST_FOR_PROCESSES))
    if len(few) < FEWEST_FOR_PROCESSES or cores < 2:
        for job in chain(few, jobs):
            yield from look_at_all(str(root), [job])
            tick(1)
        return
    chunks = batched(chain(few, jobs), CHUNK)
    while waiting := list(islice(chunks, cores)):
        yield from _spread(root, chain(waiting, chunks), cores, tick)


def _spread(
    root: Path, chunks: Iterator[list[Job]], cores: int, tick: Tick
) -> Iterator[Look | Job]:
    """Until all is done, or until a decoder takes its process along."""
    running: dict[Future[list[Look]], list[Job]] = {}
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        while True:
            for chunk in islice(chunks, 2 * cores - len(running)):
                running[pool.submit(look_at_all, str(root), chunk)] = chunk
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                chunk = running.pop(future)
                tick(len(chunk))
                if isinstance(future.exception(), BrokenProcessPool):
                    yield from chain(chunk, *running.values())
                    return
                yield from future.result()


def batched(jobs: Iterator[Job], size: int) -> Iterator[list[Job]]:
    """Lists of at most so many."""
    while chunk := list(islice(jobs, size)):
        yield chunk


def _lost(lost: Examples) -> list[str]:
    if not lost:
        return []
    return [f"{lost.count} files: a decoder crashed beside them, such as {', '.join(lost.first)}"]


def _left_out(gathered: Gathered) -> Iterator[str]:
    """What could not be looked at, and why."""
    if gathered.large:
        size = f"{LARGEST_BYTES / 1e6:.0f} MB"
        yield f"files larger than {size} were not opened: {named(gathered.large)}"
    if gathered.forgotten:
        yield f"only the first {MOST_REMEMBERED:,} files were compared with each other"
    if find_spec("numpy") is None and any(kind == "tensor" for _, kind in gathered.roles):
        yield "tensors were not searched for NaN: pip install numpy"
