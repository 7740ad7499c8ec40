"""PIT603 gradients-discarded."""

from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.diagnose.calls import CallTree, call_tree
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.parameters import roots_of
from pitstop.diagnose.place import label, span
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.05  # of the step; every generator fills a little of its critic, at no harm
WASTED = 0.5  # of the backward time: one pass of two is for nothing, or the weights' half of one


@rule("PIT603")
def gradients_discarded(recording: Recording) -> Iterator[Finding]:
    """A backward pass computes gradients that are zeroed before any optimizer reads them.

    An adversary's loss that is not detached from the network it judges runs back through all of
    that network; so does a frozen loss network whose weights still ask for gradients. A generator's
    loss must run back through its adversary, but needs no gradients of that one's weights.

    Bad:
        loss = mse(discriminator(features), valid)
        loss.backward(retain_graph=True)

    Good:
        loss = mse(discriminator(features.detach()), valid)
        loss.backward()
    """
    found, ledger = recording.evidence.parameters, recording.ledger
    if found is None or ledger is None or recording.evidence.step_kind != "optimizer":
        return
    tree = call_tree(recording.evidence)
    paths = [tree.calls[root].path for root in roots_of(tree, found.discarded)]
    at = found.discarded_at
    there = {call.path for call in tree.calls if call.parent < 0 and call.where == at}
    detached = [each for each in paths if there and each not in there]
    passed = [each for each in paths if each not in detached]
    yield from _discarded(tree, detached, at, ledger, "detach what is passed on there")
    names = ", ".join(map("`{}`".format, passed))
    cure = f"`requires_grad_(False)` on {names} for that pass, and True again before its own"
    yield from _discarded(tree, passed, at, ledger, cure)
    for root in roots_of(tree, found.gradient_unused):
        ms = tree.ms(tree.backward_micros[root], ledger) * WASTED
        if ledger.share(ms) >= WORTH_MENTIONING:
            name = tree.calls[root].path
            message = f"No optimizer holds the parameters of `{name}`, yet their gradients cost"
            cure = f"`requires_grad_(False)` on `{name}`, or give its parameters to an optimizer"
            yield _finding(message, ms, ledger, cure, tree.calls[root].where)


def _discarded(
    tree: CallTree, paths: list[str], at: Line, ledger: Ledger, cure: str
) -> Iterator[Finding]:
    passes = zip(tree.calls, tree.backward_micros, strict=True)
    micros = sum(each for call, each in passes if call.parent < 0 and call.path in paths)
    ms = tree.ms(micros, ledger) * WASTED
    if paths and ledger.share(ms) >= WORTH_MENTIONING:
        names = ", ".join(f"`{each}`" for each in paths)
        came = f" comes by {label(at)} and" if at.path else ""
        message = f"A backward pass{came} fills the gradients of {names}, which are then zeroed:"
        yield _finding(message, ms, ledger, cure, at)


def _finding(message: str, ms: float, ledger: Ledger, cure: str, at: Line) -> Finding:
    return Finding(
        f"{message} up to {of_step(ms, ledger)}.",
        span=span(at),
        cure=cure,
        confidence="measured",
        metrics=(Metric("gradients for nothing, at most", ms, "ms"),),
        saving=ledger.share(ms),
    )
