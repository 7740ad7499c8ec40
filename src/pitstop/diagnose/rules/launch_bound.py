"""PIT206 launch-bound."""

from collections.abc import Iterator

from pitstop.core.evidence import NOWHERE
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger, Row
from pitstop.core.rule import rule
from pitstop.diagnose.facts.operations import by_line
from pitstop.diagnose.facts.precision import PRODUCTS
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = {"cuda": 0.10, "cpu": 0.30}  # of the step; every run has small work somewhere
BETWEEN_MS = 2.0  # of one silence: to launch the next kernel, torch's own Python takes no longer


@rule("PIT206")
def launch_bound(recording: Recording) -> Iterator[Finding]:
    """The GPU is done with each kernel before Python has launched the next.

    Kernels are then too short for the rate at which they are launched, and no faster GPU
    helps. Fewer and larger ones do: `torch.compile`, CUDA graphs, fused optimizers, larger
    batches, one batched call instead of a loop. On a CPU it is operations on so few numbers
    that torch takes longer to start them than to compute.

    Bad:
        for tile in tiles:
            results.append(model(tile))

    Good:
        results = model(torch.cat(tiles))
    """
    ledger, evidence = recording.ledger, recording.evidence
    if ledger is None:
        return
    if ledger.device == "cpu":
        yield from _on_cpu(ledger)
        return
    between = (*ledger.chosen("launch"), *_between_launches(ledger))
    ms = sum(row.ms for row in between)
    if ledger.at_stake(ms) < WORTH_MENTIONING["cuda"]:
        return
    launches = sum(each.calls for each in evidence.kernels)
    lines = by_line(each for each in evidence.operations if each.device_micros)
    busiest = max(lines, key=lambda line: sum(each.calls for each in lines[line]), default=NOWHERE)
    yield Finding(
        f"Between {launches or 'its'} kernels the GPU idles for {cost_phrase(ms, ledger)}: they "
        "are too short for the rate at which Python launches them.",
        span=span(busiest),
        cure="fewer, larger kernels: torch.compile, a larger batch, batched calls",
        confidence="measured",
        metrics=(Metric("idle between kernels", ms, "ms"), Metric("kernels", launches, "kernels")),
        saving=ledger.at_stake(ms),
        claims=between,
        changes=("cuda-graphs", "compile", "batch-size"),
    )


def _on_cpu(ledger: Ledger) -> Iterator[Finding]:
    """Of small operations, products stay one each whatever is fused around them."""
    small = [row for row in ledger.rows if row.cause == "start" and row.what not in PRODUCTS]
    ms, calls = sum(row.ms for row in small), sum(row.calls for row in small)
    if ledger.at_stake(ms) < WORTH_MENTIONING["cpu"]:
        return
    yield Finding(
        f"{calls} operations take {cost_phrase(ms, ledger)}, {1e3 * ms / calls:.0f} µs each, most "
        "of it to be started: they work on too few numbers.",
        span=span(max(small, key=lambda row: row.ms).where),
        cure="fewer, larger operations: torch.compile, a larger batch, batched calls",
        confidence="measured",
        metrics=(Metric("starting operations", ms, "ms"), Metric("operations", calls, "calls")),
        saving=ledger.at_stake(ms),
        claims=tuple(small),
        changes=("cuda-graphs", "compile", "batch-size"),
    )


def _between_launches(ledger: Ledger) -> Iterator[Row]:
    """Python that no line of the script explains, in silences too short for other work."""
    for row in ledger.chosen("python", where=NOWHERE):
        if row.calls and row.ms <= BETWEEN_MS * row.calls:
            yield row
