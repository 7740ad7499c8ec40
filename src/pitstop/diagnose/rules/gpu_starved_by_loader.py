"""PIT101 gpu-starved-by-loader."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.loading import Wait, free_cores, mostly_at, settings, wait_for_data
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span


@rule("PIT101")
def gpu_starved_by_loader(recording: Recording) -> Iterator[Finding]:
    """The device idles while the next batch is read and decoded.

    Only the part of the wait in which the device has run dry counts: work queued before hides
    the rest. More workers hide it, a cache in memory removes it. Where there are none at all,
    loader-without-workers names the cause.

    Bad:
        loader = torch.utils.data.DataLoader(clips, batch_size=8, num_workers=1)

    Good:
        loader = torch.utils.data.DataLoader(
            clips, batch_size=8, num_workers=8, persistent_workers=True
        )
    """
    ledger, wait = recording.ledger, wait_for_data(recording)
    if ledger is None or wait is None or not wait.long or not wait.loader.workers:
        return
    loader = wait.loader
    who = "The GPU has nothing to do for" if ledger.device == "cuda" else "Each step waits"
    where = mostly_at(recording.evidence, loader)
    crowded = ledger.device == "cpu" and loader.workers >= free_cores(recording)
    yield Finding(
        f"{who} {wait.words} until the next batch of `{loader.dataset}` is there, which has "
        f"{count(loader.workers, 'worker')}{where}.",
        span=span(loader.made),
        cure=_cure(wait, recording.machine.cores),
        severity="note" if crowded else "warning",  # workers wait for cores as the model does
        confidence="measured",
        metrics=wait.metrics,
        saving=None if crowded else wait.share,
        claims=wait.claims,
        changes=("loader",),
    )


def _cure(wait: Wait, cores: int) -> str:
    if cores and wait.loader.workers >= cores:
        return "make a sample cheaper or keep the samples in memory: every core has its worker"
    more = 2 * wait.loader.workers
    number = min(more, cores) if cores else more
    return settings(wait.loader, f"num_workers={number}", "persistent_workers=True")
