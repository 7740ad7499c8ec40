"""PIT102 loader-without-workers."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.diagnose.loading import mostly_at, saved_by_workers, settings, wait_for_data
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording

REAL_READ_MS = 5.0  # files are read: more than twice what a batch costs that comes from a worker
WORTH_A_NOTE = 0.005  # of the step; what costs less is no concern


@rule("PIT102")
def loader_without_workers(recording: Recording) -> Iterator[Finding]:
    """The training thread reads and decodes every sample itself.

    Nothing else happens meanwhile. Workers read the next batches while the model computes; a
    dataset that is held in memory is served faster without them, and is not reported.

    Bad:
        loader = torch.utils.data.DataLoader(clips, batch_size=8)

    Good:
        loader = torch.utils.data.DataLoader(clips, batch_size=8, num_workers=4)
    """
    wait = wait_for_data(recording)
    if wait is None or wait.loader.workers:
        return
    if not wait.long and (wait.ms < REAL_READ_MS or wait.share < WORTH_A_NOTE):
        return
    loader, cores = wait.loader, recording.machine.cores
    workers = settings(loader, f"num_workers={min(cores, 4) or 4}")
    where = mostly_at(recording.evidence, loader)
    yield Finding(
        f"Each step reads its batch of `{loader.dataset}` itself: {wait.words}{where}.",
        span=span(loader.made),
        cure=f"{workers}, or make a sample cheaper",
        severity="warning" if wait.long else "note",
        confidence="measured",
        metrics=wait.metrics,
        saving=saved_by_workers(wait, cores),
        claims=wait.claims,
        changes=("loader",),
    )
