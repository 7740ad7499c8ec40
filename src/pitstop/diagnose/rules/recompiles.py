"""PIT403 recompiles."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Compiled, Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count, milliseconds
from pitstop.diagnose.facts.compiling import first_words
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

FEWEST = 2  # one more version is how torch.compile learns that a size varies


@rule("PIT403")
def recompiles(recording: Recording) -> Iterator[Finding]:
    """A compiled function is compiled again and again.

    Each new size, flag or mode that the last version did not foresee costs another compilation,
    and after eight versions the function runs uncompiled. Pad to one shape, mark what varies
    as dynamic, or compile the part that does not vary.

    Bad:
        network = torch.compile(model)
        for clip in clips:
            network(clip, return_features=len(clip) > 4)

    Good:
        network = torch.compile(model, dynamic=True)
        for clip in clips:
            network(clip, return_features=True)
    """
    functions: dict[Line, list[Compiled]] = defaultdict(list)
    for each in recording.evidence.compiled:
        if each.again:
            functions[each.where].append(each)
    for line, again in functions.items():
        if len(again) < FEWEST:
            continue
        seconds = sum(each.seconds for each in again)
        reason = next((each.reason for each in reversed(again) if each.reason), "")
        given_up = next((each.failure for each in reversed(again) if each.failure), "")
        why = f", the last time because {first_words(reason)}" if reason else ""
        end = f"; in the end it was given up: {first_words(given_up)}" if given_up else ""
        yield Finding(
            f"`{line.function}` was compiled again {count(len(again), 'time')}, "
            f"{milliseconds(seconds * 1e3)} in all{why}{end}.",
            span=span(line),
            cure="give it one shape and one set of flags, or torch.compile(..., dynamic=True)",
            confidence="measured",
            metrics=(
                Metric("recompilations", len(again), "times"),
                Metric("recompiling", seconds, "s"),
            ),
            per="start",
            changes=("compile",),
        )
