"""PIT503 inference-with-grad."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.calls import call_tree, lines_of
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span


@rule("PIT503")
def inference_with_grad(recording: Recording) -> Iterator[Finding]:
    """A network runs with gradients on, and no backward pass ever follows."""
    evidence = recording.evidence
    learns = evidence.step_kind == "optimizer" or any(step.backward_ms for step in evidence.steps)
    if not evidence.steady or learns or any(each.backward for each in evidence.operations):
        return
    tree = call_tree(evidence)
    kept = [each for each, call in enumerate(tree.calls) if call.graph and call.parent < 0]
    for line in lines_of(tree, kept):
        names = sorted({tree.calls[each].path for each in kept if tree.calls[each].where == line})
        calls = sum(tree.calls[each].where == line for each in kept)
        yield Finding(
            f"`{names[0]}` keeps its activations for a backward pass ({count(calls, 'call')} a "
            "step), and the run has none.",
            span=span(line),
            cure="with torch.inference_mode():",
            confidence="measured",
            changes=("inference-mode",),
        )
