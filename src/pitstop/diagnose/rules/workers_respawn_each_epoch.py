"""PIT104 workers-respawn-each-epoch."""

from collections.abc import Iterator
from statistics import median

from pitstop.core.evidence import Evidence, Loader
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count, milliseconds, percent
from pitstop.diagnose.facts.loading import settings
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.02  # of the recorded run; below this nobody notices


@rule("PIT104")
def workers_respawn_each_epoch(recording: Recording) -> Iterator[Finding]:
    """Loader workers are started anew for every epoch."""
    evidence = recording.evidence
    whole_ms = run_ms(evidence)
    for loader in evidence.loaders:
        if not loader.workers or loader.persistent or loader.starts < 2:
            continue
        start_ms = loader.start_ms - _usual_wait_ms(evidence, loader)
        share = start_ms * (loader.starts - 1) / whole_ms if whole_ms else 0.0
        if share < WORTH_MENTIONING:
            continue
        yield Finding(
            f"{count(loader.workers, 'worker')} of `{loader.dataset}` started {loader.starts} "
            f"times, {milliseconds(start_ms)} each: {percent(min(1.0, share))} of the run.",
            span=span(loader.made),
            cure=settings(loader, "persistent_workers=True"),
            confidence="measured",
            metrics=(
                Metric("starts", loader.starts, "starts"),
                Metric("start", start_ms, "ms"),
            ),
            saving=min(1.0, share),
            per="epoch" if loader.trains else "validation",
            changes=("loader",),
        )


def run_ms(evidence: Evidence) -> float:
    """The recorded run after its start-up, as if every step had been left undisturbed."""
    usual = evidence.median_ms() if evidence.steady else 0.0
    undisturbed = sum(step.total_ms for step in evidence.steady)
    others = len(evidence.steps) - len(evidence.steady)
    return undisturbed + others * usual + 1e3 * (evidence.validation_s + evidence.saving_s)


def _usual_wait_ms(evidence: Evidence, loader: Loader) -> float:
    """What a batch takes that is no epoch's first; known only where the steps are fed by it."""
    waits = [step.data_wait_ms for step in evidence.steady] if loader.trains else []
    return median(waits) if waits else 0.0
