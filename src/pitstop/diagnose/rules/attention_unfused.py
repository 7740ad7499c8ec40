"""PIT604 attention-unfused."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Line, Operation
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.attention import handles, home, written_out
from pitstop.diagnose.calls import call_tree, timed
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.03  # of the step in the score matrix; below this a kernel is lost in noise
WHOLE = "MultiheadAttention"  # torch's own writes its scores only where somebody asks for them


@rule("PIT604")
def attention_unfused(recording: Recording) -> Iterator[Finding]:
    """Attention is written out: the whole score matrix goes through memory.

    Scores, softmax and dropout each write and read a tokens x tokens matrix per head.
    `scaled_dot_product_attention` keeps it on the chip, in training and inference; a bias or a
    mask goes in as `attn_mask`. The two matrix products remain.

    Bad:
        scores = q @ k.transpose(-2, -1) * scale
        out = scores.softmax(-1) @ v

    Good:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    """
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    tree = call_tree(evidence)
    in_call: dict[int, list[tuple[Operation, float]]] = defaultdict(list)
    for operation, micros in timed(evidence):
        in_call[home(tree.calls, operation.call)].append((operation, micros))
    spent: dict[Line, float] = defaultdict(float)
    for call, operations in in_call.items():
        if call < 0 or tree.calls[call].kind == WHOLE:
            continue
        for line, scores in written_out([each for each, _ in operations]):
            spent[line] += sum(micros for each, micros in operations if handles(each, scores))
    for line, micros in spent.items():
        ms = tree.ms(micros, ledger)
        if ledger.share(ms) >= WORTH_MENTIONING:
            yield Finding(
                f"Attention is written out: {of_step(ms, ledger)} go into the score matrix, the "
                "two products not counted.",
                span=span(line),
                cure="torch.nn.functional.scaled_dot_product_attention",
                confidence="measured",
                metrics=(Metric("score matrix", ms, "ms"),),
                saving=ledger.share(ms),
            )
