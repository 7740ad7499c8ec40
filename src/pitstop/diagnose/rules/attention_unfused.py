"""PIT604 attention-unfused."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.attention import TORCHS_OWN, attentions, comes_with
from pitstop.diagnose.facts.calls import call_tree
from pitstop.diagnose.ledger.behind import rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.03  # of the step in the score matrix; below this a kernel is lost in noise
FUSED = "torch.nn.functional.scaled_dot_product_attention"
OF_TORCHS, OF_OTHERS = "no-attention-weights", "fused-attention"  # changes to try
ASK_FOR_LESS = "need_weights=False, unless somebody reads the weights"


@rule("PIT604")
def attention_unfused(recording: Recording) -> Iterator[Finding]:
    """Attention is written out: the whole score matrix goes through memory."""
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    tree = call_tree(evidence)
    unfused = set(evidence.settings.unfused) if evidence.settings else set()
    for each in attentions(evidence):
        ms = tree.ms(sum(micros for _, micros in each.operations), ledger)
        if unfused.isdisjoint(comes_with(each)) and ledger.at_stake(ms) >= WORTH_MENTIONING:
            yield Finding(
                f"Attention is written out: {cost_phrase(ms, ledger)} go into the score matrix, "
                "the two products not counted.",
                span=span(each.where),
                cure=ASK_FOR_LESS if each.kind == TORCHS_OWN else FUSED,
                confidence="measured",
                metrics=(Metric("score matrix", ms, "ms"),),
                saving=ledger.at_stake(ms),
                claims=rows_behind(ledger, [one for one, _ in each.operations]),
                changes=(OF_TORCHS if each.kind == TORCHS_OWN else OF_OTHERS,),
            )
