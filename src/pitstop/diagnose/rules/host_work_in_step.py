"""PIT212 host-work-in-step."""

from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.diagnose.facts.calls import labels
from pitstop.diagnose.facts.loading import working_beside_ms
from pitstop.diagnose.facts.reads import number_loops
from pitstop.diagnose.facts.row_loops import row_loops
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.ledger.own_python import own_python
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.20  # of the step at one line; a step of small operations has some everywhere
LONG_MS = 5.0  # at that line; no bookkeeping of a loop takes so long
WORTH_A_LINE = 0.02  # of the step: of a loop over frames these lines are named
MAKE_BATCHES = "let a DataLoader with workers make the batches; do the rest beside the steps"
BESIDE = "let one thread read what comes next and another write what is done, beside the model"


@rule("PIT212")
def host_work_in_step(recording: Recording) -> Iterator[Finding]:
    """The step waits for Python of the script that is no work of torch."""
    ledger = recording.ledger
    if ledger is None:
        return
    loops = {line for loop in row_loops(recording.evidence) for line in loop.lines}
    loops |= {read.where for read in number_loops(recording, ledger)}  # they have their own rules
    spent = {at: ms for at, ms in own_python(recording, ledger).items() if at not in loops}
    if recording.evidence.step_kind == "optimizer" or recording.evidence.loaders:
        for line, ms in spent.items():
            of = f"Python of `{line.function}` itself, no work of torch, takes"
            yield from _finding(recording, ledger, {line: ms}, of, MAKE_BATCHES)
        return
    frames = {at: ms for at, ms in spent.items() if ledger.at_stake(ms) >= WORTH_A_LINE}
    places = labels(sorted(frames, key=lambda at: (at.path, at.line)))
    of = f"Between the calls of the model Python of the script itself ({places}) takes"
    yield from _finding(recording, ledger, frames, of, BESIDE)


def _finding(
    recording: Recording, ledger: Ledger, spent: dict[Line, float], of: str, cure: str
) -> Iterator[Finding]:
    """What these lines take, where it is worth doing beside the model."""
    ms = sum(spent.values())
    if ms < LONG_MS or ledger.at_stake(ms) < WORTH_MENTIONING:
        return
    whole_ms = ledger.with_waits(ms)
    left_ms = working_beside_ms(recording, ledger.step_ms - whole_ms, whole_ms)
    if cure == BESIDE:
        left_ms = max(left_ms, whole_ms)  # one thread is no faster than the loop was
    saving = ledger.share(min(whole_ms, ledger.step_ms - left_ms))
    worth = saving >= WORTH_A_LINE
    yield Finding(
        f"{of} {cost_phrase(ms, ledger)}.",
        span=span(max(spent, key=lambda at: spent[at])),
        cure=cure,
        severity="warning" if worth else "note",  # other programs or the model need the cores
        confidence="measured",
        metrics=(Metric("Python", ms, "ms"),),
        saving=saving if worth else None,
        claims=tuple(row for line in spent for row in ledger.chosen("python", where=line)),
    )
