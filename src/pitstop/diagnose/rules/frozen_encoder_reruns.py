"""PIT608 frozen-encoder-reruns."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Evidence, Line, ModuleCall
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.calls import call_tree
from pitstop.diagnose.facts.loading import feeding_loader
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.01  # of the step, or of all parameters: memory is often the larger gain
TOKENS = ("int64[", "int32[")  # what text becomes: no augmentation changes it


@rule("PIT608")
def frozen_encoder_reruns(recording: Recording) -> Iterator[Finding]:
    """A frozen encoder computes again what it has computed for the same input before.

    The captions of a finite dataset are the same in every epoch, and so is what a frozen text
    encoder says about them. Encoded once and kept, they cost nothing in the step, and the encoder
    can leave the GPU: the part `encoded_once` does both. Inputs that are augmented anew each time
    must be encoded each time.

    Bad:
        for batch in train_loader:
            text = text_encoder(batch["ids"])

    Good:
        encoded = {ids: text_encoder(ids) for ids in captions}
        for batch in train_loader:
            text = encoded[batch["ids"]]
    """
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    tree = call_tree(evidence)
    all_parameters = max(
        1, sum({call.path: call.parameters for call in tree.calls if call.parent < 0}.values())
    )
    by_line: dict[Line, list[int]] = defaultdict(list)
    for position, call in enumerate(tree.calls):
        if call.frozen and call.parent < 0 and call.parameters and not call.graph:
            by_line[call.where].append(position)
    for line, positions in by_line.items():
        calls = [tree.calls[position] for position in positions]
        ms = tree.ms(sum(tree.micros[position] for position in positions), ledger)
        same = _known(calls)
        samples = _samples_of_tokens(evidence, calls)
        held = calls[0].parameters / all_parameters
        share = ledger.at_stake(ms)
        if max(share, held) < WORTH_MENTIONING or not (same or samples):
            continue
        tokens = f"reads tokens of a dataset of {count(samples, 'sample')}"
        often = f"{same} times a step" if same > 1 else "again from step to step"
        why = f"gets the same input {often}" if same else tokens
        cost = f", and takes {cost_phrase(ms, ledger)}" if ms else ""
        yield Finding(
            f"`{calls[0].path}` is frozen and {why}{cost}.",
            span=span(line),
            cure="encode each input once and keep the result: the part `encoded_once`",
            severity="warning" if share >= WORTH_MENTIONING else "note",
            confidence="measured" if same else "suspected",
            metrics=(
                Metric("frozen encoder", ms, "ms"),
                Metric("its parameters", calls[0].parameters, "numbers"),
            ),
            saving=share if ms else None,
            claims=rows_behind(ledger, operations_in(evidence, positions)),
        )


def _known(calls: list[ModuleCall]) -> int:
    """How often one content came in; one where it came in an earlier step too, else 0."""
    most = Counter(call.content for call in calls if call.content).most_common(1)
    times = most[0][1] if most else 0
    return times if times > 1 or any(call.again for call in calls) else 0


def _samples_of_tokens(evidence: Evidence, calls: list[ModuleCall]) -> int:
    """The size of the dataset that is learned from, where only tokens go in; else 0."""
    loader = feeding_loader(evidence)
    tokens = all(call.shapes.startswith(TOKENS) for call in calls)
    return loader.length or 0 if loader and loader.trains and tokens else 0
