"""PIT115 run-hangs."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.diagnose.facts.hanging import waiting_lines
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import label, span

CURE = "look at what this line works on or waits for"
WITHOUT_WORKERS = "num_workers=0 shows an error that workers hide"


@rule("PIT115")
def run_hangs(recording: Recording) -> Iterator[Finding]:
    """No step was finished, and the script was found waiting.

    It was asked where it is while it ran; the line is that of the last answer. Where a loader is
    waited for, the line of its workers tells more than the script's own.

    Bad:
        loader = torch.utils.data.DataLoader(Frames(queue), num_workers=8)
        first = next(iter(loader))

    Good:
        loader = torch.utils.data.DataLoader(Frames(folder), num_workers=8)
        first = next(iter(loader))
    """
    evidence = recording.evidence
    if evidence.steps or not evidence.stacks:
        return
    waiting = waiting_lines(evidence.stacks)
    place = waiting.worker or waiting.script
    if place is None:
        return
    script = f"the script was at {label(waiting.script)}" if waiting.script else ""
    worker = f"its workers at {label(waiting.worker)}" if waiting.worker else ""
    where = ", ".join(filter(None, (script, worker)))
    yield Finding(
        f"No step was finished: when it was last asked, {where} in `{place.function}`.",
        span=span(place),
        cure=CURE if waiting.worker is None else f"{CURE}; {WITHOUT_WORKERS}",
        severity="error",
        confidence="measured",
        per="start",
    )
