"""PIT209 op-runs-on-cpu."""

from collections.abc import Iterator

from pitstop.core.evidence import Operation
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.cost import idle_behind, of_step
from pitstop.diagnose.operations import by_line, short, tensors
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.row_loops import READ, VIEWS
from pitstop.diagnose.transfers import COPIES

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
    for line, operations in by_line(on_cpu).items():
        micros = sum(each.micros for each in operations)
        ms = min(idle_behind(ledger, line, micros), micros / 1e3)
        if ledger.share(ms) < WORTH_MENTIONING:
            continue
        dearest = short(max(operations, key=lambda each: each.micros))
        yield Finding(
            f"`{dearest}` runs on the CPU while the GPU idles for {of_step(ms, ledger)}.",
            span=span(line),
            cure="keep its tensors on the GPU",
            confidence="measured",
            metrics=(Metric("on the CPU", ms, "ms"),),
            saving=ledger.share(ms),
        )


def _runs_on_cpu(operation: Operation) -> bool:
    given = tensors(operation)
    on_cpu = bool(given) and all(each.device == "cpu" for each in given)
    return on_cpu and operation.phase != "wait" and short(operation) not in {*COPIES, *VIEWS, READ}
