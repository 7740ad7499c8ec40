"""PIT206 launch-bound."""

from collections.abc import Iterator

from pitstop.core.evidence import NOWHERE
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.operations import by_line
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.10  # of the step; every run has short kernels somewhere
BETWEEN_MS = 2.0  # of one silence: to launch the next kernel, torch's own Python takes no longer


@rule("PIT206")
def launch_bound(recording: Recording) -> Iterator[Finding]:
    """The GPU is done with each kernel before Python has launched the next.

    Kernels are then too short for the rate at which they are launched, and no faster GPU
    helps. Fewer and larger ones do: `torch.compile`, CUDA graphs, fused optimizers, larger
    batches, one batched call instead of a loop.

    Bad:
        for tile in tiles:
            results.append(model(tile))

    Good:
        results = model(torch.cat(tiles))
    """
    ledger, evidence = recording.ledger, recording.evidence
    if ledger is None or ledger.device != "cuda":
        return
    ms = ledger.total("launch") + _between_launches(ledger)
    if ledger.share(ms) < WORTH_MENTIONING:
        return
    launches = sum(each.calls for each in evidence.kernels)
    lines = by_line(each for each in evidence.operations if each.device_micros)
    busiest = max(lines, key=lambda line: sum(each.calls for each in lines[line]), default=NOWHERE)
    yield Finding(
        f"Between {launches or 'its'} kernels the GPU idles for {of_step(ms, ledger)}: they are "
        "too short for the rate at which Python launches them.",
        span=span(busiest),
        cure="fewer, larger kernels: torch.compile, a larger batch, batched calls",
        confidence="measured",
        metrics=(Metric("idle between kernels", ms, "ms"), Metric("kernels", launches, "kernels")),
        saving=ledger.share(ms),
        changes=("compile", "batch-size", "fused-optimizer"),
    )


def _between_launches(ledger: Ledger) -> float:
    """Python that no line of the script explains, in silences too short for other work."""
    silent = [row for row in ledger.rows if row.cause == "python" and not row.where.path]
    return sum(row.ms for row in silent if row.calls and row.ms <= BETWEEN_MS * row.calls)
