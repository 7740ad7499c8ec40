"""PIT501 graph-kept-alive."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

A_PAGE = 4096  # bytes; below this the nodes of the graph weigh more than its tensors


@rule("PIT501")
def graph_kept_alive(recording: Recording) -> Iterator[Finding]:
    """A tensor is kept over the steps together with its graph."""
    evidence = recording.evidence
    seen = set()
    for kept in evidence.kept:
        line = kept.kept_at if kept.kept_at.path else kept.where
        if not kept.graph or (line, kept.holder) in seen:
            continue
        seen.add((line, kept.holder))
        holder = f"`{kept.holder}`" if kept.holder else "Something"
        more = f", {binary_bytes(kept.held_bytes)} each" if kept.held_bytes >= A_PAGE else ""
        yield Finding(
            f"{holder} keeps the graph of every step{more}: memory grows until it is let go.",
            span=span(line),
            cure="keep `.detach()` of it",
            confidence="measured",
            metrics=(Metric("kept by each step", kept.held_bytes, "B"),),
            saved_bytes=kept.held_bytes * len(evidence.steps) or None,
        )
