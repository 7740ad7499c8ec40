"""PIT603 gradients-discarded."""

from collections.abc import Iterator

from pitstop.core.evidence import Discarded, Line, ModuleCall
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger, Row
from pitstop.core.rule import rule
from pitstop.diagnose.facts.calls import CallTree, call_tree
from pitstop.diagnose.facts.parameters import loss_networks, unlearned
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import label, span

WORTH_MENTIONING = 0.03  # of the step
WORTH_FREEZING = 0.05  # every generator fills a little of its critic, at no harm
WEIGHTS = 0.5  # of a backward pass: what goes on to the layers before is the other half
CUT_OFF = "detach what is passed on there"
FREEZE = "`requires_grad_(False)` on {} for that pass, and True again before its own"


@rule("PIT603")
def gradients_discarded(recording: Recording) -> Iterator[Finding]:
    """A backward pass computes gradients that are zeroed before any optimizer reads them."""
    found, ledger = recording.evidence.parameters, recording.ledger
    if found is None or ledger is None or recording.evidence.step_kind != "optimizer":
        return
    tree = call_tree(recording.evidence)
    for each in found.discards:
        yield from _discarded(recording, tree, each, ledger)
    judges = loss_networks(tree, found.gradient_unused)
    for root in unlearned(tree, found.gradient_unused):
        name = tree.calls[root].path
        calls = [place for place, call in enumerate(tree.calls) if call.path == name]
        micros = sum(tree.backward_micros[each] * _needless(tree.calls[each]) for each in calls)
        ms = tree.ms(micros, ledger)
        if ledger.at_stake(ms) >= WORTH_MENTIONING:
            message = f"No optimizer holds the parameters of `{name}`, yet their gradients cost"
            cure = f"`requires_grad_(False)` on `{name}`"
            cure += "" if name in judges else ", or give its parameters to an optimizer"
            claims = _backward_rows(recording, ledger, calls)
            yield _finding(message, ms, ledger, cure, tree.calls[root].where, claims)


def _needless(call: ModuleCall) -> float:
    """The share of a backward pass that frozen weights spare: all of it where nothing comes in."""
    return WEIGHTS if call.fed else 1.0


def _discarded(
    recording: Recording, tree: CallTree, found: Discarded, ledger: Ledger
) -> Iterator[Finding]:
    """What was called where the pass came by has to be passed; all behind it can be cut off."""
    at = found.where
    there = {call.path for call in tree.calls if call.parent < 0 and call.where == at}
    calls = [each for each in found.calls if each[0] < len(tree.calls)]
    behind = [each for each in calls if there and tree.calls[each[0]].path not in there]
    passed = [each for each in calls if each not in behind]
    for those, wasted, least, cure in (
        (behind, 1.0, WORTH_MENTIONING, CUT_OFF),
        (passed, WEIGHTS, WORTH_FREEZING, FREEZE),
    ):
        names = ", ".join(dict.fromkeys(f"`{tree.calls[place].path}`" for place, _ in those))
        micros = sum(tree.backward_micros[place] / passes for place, passes in those)
        ms = tree.ms(micros, ledger) * wasted
        if ledger.at_stake(ms) >= least:
            came = f" comes by {label(at)} and" if at.path else ""
            what = f"fills the gradients of {names}, which are then zeroed:"
            claims = _backward_rows(recording, ledger, [place for place, _ in those])
            message = f"A backward pass{came} {what}"
            yield _finding(message, ms, ledger, cure.format(names), at, claims)


def _backward_rows(recording: Recording, ledger: Ledger, calls: list[int]) -> tuple[Row, ...]:
    """The rows of what runs in the backward passes of these calls."""
    inside = operations_in(recording.evidence, calls)
    return rows_behind(ledger, [each for each in inside if each.backward])


def _finding(
    message: str, ms: float, ledger: Ledger, cure: str, at: Line, claims: tuple[Row, ...]
) -> Finding:
    return Finding(
        f"{message} up to {cost_phrase(ms, ledger)}.",
        span=span(at),
        cure=cure,
        confidence="measured",
        metrics=(Metric("gradients for nothing, at most", ms, "ms"),),
        saving=ledger.at_stake(ms),
        claims=claims,
    )
