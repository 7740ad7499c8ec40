"""PIT615 elementwise-unfused."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import milliseconds
from pitstop.diagnose.facts.calls import call_tree
from pitstop.diagnose.facts.fusing import fusable
from pitstop.diagnose.ledger.behind import rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step that is spared; compiling takes a minute of its own


@rule("PIT615")
def elementwise_unfused(recording: Recording) -> Iterator[Finding]:
    """Chains of elementwise operations go through the GPU's memory, one after the other.

    A sum, a product, an activation or a change of precision does next to nothing with each
    number, but reads and writes all of them. `torch.compile` makes one kernel of a chain, which
    reads once and writes once. For what the model runs many times over, such as a transformer's
    block, it is enough to compile that block.

    Bad:
        model = Transformer().cuda()

    Good:
        model = torch.compile(Transformer().cuda())
    """
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None or ledger.device != "cuda" or evidence.compiled:
        return
    found = fusable(evidence)
    tree = call_tree(evidence)
    ms, spared_ms = (tree.ms(each, ledger) for each in (found.micros, found.spared_micros))
    if ledger.at_stake(spared_ms) >= WORTH_MENTIONING:
        yield Finding(
            f"{found.calls:,} elementwise operations take {cost_phrase(ms, ledger)}, each through "
            f"memory and back; fused within each module they would take {milliseconds(spared_ms)} "
            "less.",
            span=span(found.where),
            cure="torch.compile, of the whole model or of its repeated block",
            confidence="measured",
            metrics=(Metric("elementwise", ms, "ms"), Metric("spared", spared_ms, "ms")),
            saving=ledger.at_stake(spared_ms),
            claims=rows_behind(ledger, found.operations),
            changes=("compile",),
        )
