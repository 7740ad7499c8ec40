"""PIT102 loader-without-workers."""

from collections.abc import Iterator

from pitstop.core.evidence import Loader
from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.diagnose.facts.loading import mostly_at, saved_by_workers, settings, wait_for_data
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

REAL_READ_MS = 5.0  # files are read: more than twice what a batch costs that comes from a worker
SHORT_EPOCH = 100  # batches; to start workers takes as long as dozens of them
WORTH_STARTING = 0.05  # of the step saved; less is lost again where cores are short
NO_CORES = "make a sample cheaper: workers would take cores that the step needs"
WORTH_A_NOTE = 0.005  # of the step; what costs less is no concern


@rule("PIT102")
def loader_without_workers(recording: Recording) -> Iterator[Finding]:
    """The training thread reads and decodes every sample itself."""
    wait = wait_for_data(recording)
    if wait is None or wait.loader.workers:
        return
    if not wait.long and (wait.ms < REAL_READ_MS or wait.share < WORTH_A_NOTE):
        return
    loader, cores = wait.loader, recording.machine.cores
    workers = settings(
        loader,
        f"num_workers={min(cores, 4) or 4}",
        *(("persistent_workers=True",) if _is_short(loader) else ()),
    )
    where, saving = mostly_at(recording.evidence, loader), saved_by_workers(wait, recording)
    worth = wait.long and saving >= WORTH_STARTING
    yield Finding(
        f"Each step reads its batch of `{loader.dataset}` itself: {wait.words}{where}.",
        span=span(loader.made),
        cure=f"{workers}, or make a sample cheaper" if worth or not wait.long else NO_CORES,
        severity="warning" if worth else "note",
        confidence="measured",
        metrics=wait.metrics,
        saving=saving or None,
        claims=wait.claims,
        changes=("loader",),
    )


def _is_short(loader: Loader) -> bool:
    """Whether its workers would be started anew after few batches."""
    return 0 < (loader.per_epoch or 0) < SHORT_EPOCH or loader.starts > 1
