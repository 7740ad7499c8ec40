"""PIT602 computed-but-unused."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Evidence, Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.core.units import count, percent, rate
from pitstop.diagnose.facts.calls import CallTree, call_tree, starred
from pitstop.diagnose.facts.parameters import never_called
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import label, span

WORTH_MENTIONING = 0.002  # of the step; the proof is certain, so even little is worth a note
A_NOTE = 0.01  # of the step; below this nobody will measure the gain
TRIES = "`leave-out` of tune tries it"
NAMED = 3  # modules named at one line; the line says the rest
MANY_PARAMETERS = 0.01  # of all numbers in parameters; fewer cost neither memory nor time


@rule("PIT602")
def computed_but_unused(recording: Recording) -> Iterator[Finding]:
    """A module runs, and nothing depends on its result; or it is trained, and never runs.

    The blocks behind the last feature that is used, a loss term that one of two optimizers
    drops, a head that is read in another mode only: the time is spent for nobody. The change
    `leave-out` of tune tries to do without. Parameters that never get a gradient take memory and
    hide a mistake.

    Bad:
        latent, features = encoder(frame)
        quantised = quantize(latent)
        return features

    Good:
        return encoder.features(frame)
    """
    ledger = recording.ledger
    if ledger is None:
        return
    tree = call_tree(recording.evidence)
    unused = [position for position, call in enumerate(tree.calls) if call.unused]
    by_line: dict[Line, list[int]] = defaultdict(list)
    for position in tree.outermost(unused):
        by_line[tree.calls[position].where].append(position)
    for line, positions in by_line.items():
        yield from _unused(recording.evidence, tree, line, positions, ledger)
    yield from _never_called(recording)


def _unused(
    evidence: Evidence, tree: CallTree, line: Line, positions: list[int], ledger: Ledger
) -> Iterator[Finding]:
    ms = tree.ms(sum(tree.micros[position] for position in positions), ledger)
    share = min(ledger.at_stake(ms), ledger.at_stake(ledger.total("unused")))
    if share < WORTH_MENTIONING:
        return
    flops = sum(tree.flops[position] for position in positions)
    names = sorted({starred(tree.calls[position].path) for position in positions})
    named = ", ".join(f"`{name}`" for name in names[:NAMED])
    yield Finding(
        f"Nothing depends on the result of {named}: {count(len(positions), 'call')} a step, "
        f"{cost_phrase(ms, ledger)}, {rate(flops, 'FLOP')}.",
        span=span(line),
        cure=_cure(tree, positions[0]),
        severity="note" if share < A_NOTE else "warning",
        confidence="measured",
        metrics=(Metric("unused", ms, "ms"), Metric("unused", flops, "FLOP")),
        saving=share,
        changes=("leave-out",),
        claims=rows_behind(ledger, operations_in(evidence, positions), "unused"),
    )


def _cure(tree: CallTree, position: int) -> str:
    """What to leave out: the call, or what another one asks for, where a third one needs it."""
    lines = [tree.calls[each].where for each in (position, *tree.above(position))]
    needed = [
        [tree.calls[each].where for each in (place, *tree.above(place))]
        for place, call in enumerate(tree.calls)
        if call.path == tree.calls[position].path and not call.unused and not call.recomputed
    ]
    for level, line in enumerate(lines):
        if line not in (others[level] for others in needed if level < len(others)):
            at = f" from what {label(line)} calls; others need it" if level else ""
            return f"leave the call out{at or ' where its result is not needed'}; {TRIES}"
    return (
        "leave the call out where its result is not needed; other calls of this line need it; "
        f"{TRIES}"
    )


def _never_called(recording: Recording) -> Iterator[Finding]:
    evidence = recording.evidence
    for dead in never_called(evidence):
        whole = evidence.parameters.count if evidence.parameters else 0
        if whole and dead.numbers >= MANY_PARAMETERS * whole:
            yield Finding(
                f"`{dead.name}` is handed to the optimizer, but never called: {dead.numbers:,} "
                f"numbers ({percent(dead.numbers / whole)} of all) without a gradient.",
                span=span(dead.made),
                item=dead.name,
                cure="call it, or take it out of the model",
                confidence="suspected",  # it may be called in other steps
                metrics=(Metric("parameters without a gradient", dead.numbers, "numbers"),),
            )
