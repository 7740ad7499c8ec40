"""PIT504 pipeline-rebuilt."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Line, ModuleCall
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

LARGE = 1_000_000  # numbers in its parameters; a smaller network is rebuilt in no time


@rule("PIT504")
def pipeline_rebuilt(recording: Recording) -> Iterator[Finding]:
    """A network is built again in the course of the run, beside or instead of an equal one."""
    evidence = recording.evidence
    times = Counter(call.kind for call in evidence.rebuilt)
    known = {call.kind for call in evidence.calls if call.parent < 0}
    by_line: dict[Line, list[ModuleCall]] = defaultdict(list)
    for call in evidence.rebuilt:
        if times[call.kind] > 1 or call.kind in known:  # else it is new, not built again
            by_line[call.where].append(call)
    for line, calls in by_line.items():
        kinds = {call.kind: call.parameters for call in calls}
        numbers = sum(kinds.values())
        if numbers < LARGE:
            continue
        names = ", ".join(f"`{kind}`" for kind in sorted(kinds))
        yield Finding(
            f"{names} with {numbers / 1e6:.0f} M parameters is built again during the run, "
            "and used at this line.",
            span=span(line),
            cure="build it once and keep it; `shared_pipelines` builds one on the same weights",
            confidence="measured",
            metrics=(Metric("parameters built again", numbers, "numbers"),),
            per="validation" if evidence.validation_s else "step",
        )
