"""PIT212 host-work-in-step."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.own_python import own_python
from pitstop.diagnose.place import span
from pitstop.diagnose.reads import number_loops
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.row_loops import row_loops

WORTH_MENTIONING = 0.20  # of the step at one line; a step of small operations has some everywhere
LONG_MS = 5.0  # at that line; no bookkeeping of a loop takes so long


@rule("PIT212")
def host_work_in_step(recording: Recording) -> Iterator[Finding]:
    """The step waits for Python of the script that is no work of torch.

    A hand-written generator that reads files, an augmentation in the loop, a picture drawn in
    every step: nothing else happens meanwhile. What makes batches belongs into a dataset whose
    loader has workers; the rest can be done by a thread, or every hundred steps.

    Bad:
        for path in paths:
            loss = criterion(model(read_clip(path)))

    Good:
        for clip in torch.utils.data.DataLoader(Clips(paths), num_workers=4):
            loss = criterion(model(clip))
    """
    ledger = recording.ledger
    if ledger is None:
        return
    loops = {line for loop in row_loops(recording.evidence) for line in loop.lines}
    loops |= {read.where for read in number_loops(recording, ledger)}  # they have their own rules
    for line, ms in own_python(recording, ledger).items():
        if line in loops or ms < LONG_MS or ledger.at_stake(ms) < WORTH_MENTIONING:
            continue
        yield Finding(
            f"Python of `{line.function}` itself, no work of torch, takes {of_step(ms, ledger)}.",
            span=span(line),
            cure="let a DataLoader with workers make the batches; do the rest beside the steps",
            confidence="measured",
            metrics=(Metric("Python", ms, "ms"),),
            saving=ledger.at_stake(ms),
            claims=ledger.chosen("python", where=line),
        )
