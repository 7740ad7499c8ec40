"""PIT209 op-runs-on-cpu."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import ENOUGH_SAMPLES, Evidence, Line, Operation
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.diagnose.facts.calls import labels, stretch
from pitstop.diagnose.facts.operations import by_line, short, tensors
from pitstop.diagnose.facts.row_loops import READ, VIEWS
from pitstop.diagnose.facts.waits import COPIES
from pitstop.diagnose.ledger.cost import cost_phrase, idle_behind, idle_rows
from pitstop.diagnose.ledger.samples import line_ms
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.02  # of the step; optimizers keep a few counters on the CPU, and may


@rule("PIT209")
def op_runs_on_cpu(recording: Recording) -> Iterator[Finding]:
    """An operation runs on the CPU in a run whose model is on the GPU.

    The GPU waits for it, and its result must be copied. Reading a batch is not meant, nor are
    the copies themselves, nor the reading of a number that is there already.

    Bad:
        weight = torch.zeros(result.shape)
        weight += ramp.cpu()

    Good:
        weight = torch.zeros(result.shape, device=result.device)
        weight += ramp
    """
    ledger = recording.ledger
    if ledger is None or ledger.device != "cuda":
        return
    on_cpu = [each for each in recording.evidence.operations if _runs_on_cpu(each)]
    alike: dict[tuple[str, str, str], dict[Line, float]] = defaultdict(dict)
    for line, operations in by_line(on_cpu).items():
        if ms := _idle_ms(recording.evidence, ledger, line, operations):
            dearest = short(max(operations, key=lambda each: each.micros))
            alike[line.path, line.function, dearest][line] = ms
    for (*_, name), lines in alike.items():
        ms, places = sum(lines.values()), sorted(lines, key=lambda each: each.line)
        if ledger.at_stake(ms) < WORTH_MENTIONING:
            continue
        at = f" ({labels(places)})" if len(places) > 1 else ""
        yield Finding(
            f"`{name}` runs on the CPU{at} while the GPU idles for {cost_phrase(ms, ledger)}.",
            span=stretch(places),
            cure="keep its tensors on the GPU",
            confidence="measured",
            metrics=(Metric("on the CPU", ms, "ms"),),
            saving=ledger.at_stake(ms),
            claims=tuple(row for line in lines for row in idle_rows(ledger, line)),
        )


def _idle_ms(evidence: Evidence, ledger: Ledger, line: Line, operations: list[Operation]) -> float:
    """The idle time that a line's work explains; an inspected step may take longer over it."""
    micros = sum(each.micros for each in operations)
    ms = min(idle_behind(ledger, line, micros), micros / 1e3)
    if sum(each.samples for each in evidence.sampled) < ENOUGH_SAMPLES:
        return ms
    spent = line_ms(evidence, lambda _: True).get(line, 0.0)
    return min(ms, max(0.0, spent - ledger.total("transfer", "sync", where=line)))


def _runs_on_cpu(operation: Operation) -> bool:
    given = tensors(operation)
    on_cpu = bool(given) and all(each.device == "cpu" for each in given)
    return on_cpu and operation.phase != "wait" and short(operation) not in {*COPIES, *VIEWS, READ}
