"""PIT706 parameter-outside-optimizer."""

from collections.abc import Iterator
from itertools import takewhile

from pitstop.core.evidence import NOWHERE, Line, Parameters
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.calls import call_tree
from pitstop.diagnose.facts.parameters import Named, loss_networks, roots_of
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

NAMED = 3  # parameters named one by one; more are counted


@rule("PIT706")
def parameter_outside_optimizer(recording: Recording) -> Iterator[Finding]:
    """A parameter gets a gradient, but no optimizer holds it: it never learns.

    Learned loss weights, a head that was added later, a second network: `model.parameters()`
    does not know of them. A network that only judges, such as VGG in a loss, shall not learn:
    gradients-discarded says what its gradients cost.

    Bad:
        criterion = UncertaintyLoss()
        optimizer = torch.optim.Adam(model.parameters())

    Good:
        criterion = UncertaintyLoss()
        optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()])
    """
    evidence = recording.evidence
    found = evidence.parameters
    if found is None or evidence.step_kind != "optimizer":
        return
    tree, outside = call_tree(evidence), set(found.outside_optimizer)
    judges = tuple(f"{path}." for path in loss_networks(tree, found.gradient_unused))
    forgotten = tuple(
        each
        for each in found.gradient_unused
        if each in outside and not each[0].startswith(judges)  # they are meant not to learn
    )
    if not forgotten:
        return
    roots = roots_of(tree, forgotten)
    where = _made(found, forgotten)
    if not where.path and roots:
        where = tree.calls[roots[0]].where
    owners = ", ".join(f"`{tree.calls[root].path}`" for root in roots)
    numbers = sum(size for _, size in forgotten)
    yield Finding(
        f"{_named(forgotten, owners)} ({count(numbers, 'number')}) get a gradient, but no "
        "optimizer holds them: they never learn.",
        span=span(where),
        item=forgotten[0][0],
        cure="give them to an optimizer, or freeze them with `requires_grad_(False)`",
        confidence="certain",
        metrics=(Metric("outside any optimizer", numbers, "numbers"),),
    )


def _made(found: Parameters, forgotten: Named) -> Line:
    """Where the module was built that all of them are in, or the first of those they are in."""
    made = dict(found.made)
    owners = [name.rpartition(".")[0] for name, _ in forgotten]
    parts = zip(*(owner.split(".") for owner in owners), strict=False)
    shared = takewhile(lambda names: len(set(names)) == 1, parts)
    for path in (".".join(names[0] for names in shared), *owners):
        if path in made:
            return made[path]
    return NOWHERE


def _named(parameters: Named, owners: str) -> str:
    if len(parameters) > NAMED:
        return count(len(parameters), "parameter") + (f" of {owners}" if owners else "")
    return ", ".join(f"`{name}`" for name, _ in parameters)
