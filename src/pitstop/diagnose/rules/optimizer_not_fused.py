"""PIT606 optimizer-not-fused."""

from collections.abc import Iterator

from pitstop.core.evidence import Optimizer
from pitstop.core.finding import Finding, Metric
from pitstop.core.fusing import FUSABLE, ON_A_CPU
from pitstop.core.ledger import Ledger
from pitstop.core.machine import Machine
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step; fusing less than that cannot be measured
TRAFFIC_BYTES = 28  # for each number: Adam reads four floats and writes three
A_TENSOR = 5_000  # numbers: a dozen operations start on a tensor in the time that these take


@rule("PIT606")
def optimizer_not_fused(recording: Recording) -> Iterator[Finding]:
    """The optimizer updates in many small kernels where one would do."""
    evidence, ledger = recording.evidence, recording.ledger
    slow = [each for each in evidence.optimizers if each.name in FUSABLE and not each.fused]
    if ledger is None or not slow or not _can_fuse(recording.machine, ledger.device):
        return
    spent_ms = _spent_ms(recording, ledger)
    work = sum(map(_work, evidence.optimizers))
    for each in slow:
        ms = spent_ms * _work(each) / work if work else 0.0
        saved_ms = max(0.0, ms - _floor_ms(recording, each))
        if ledger.at_stake(saved_ms) < WORTH_MENTIONING:
            continue
        yield Finding(
            f"`{each.name}` takes {cost_phrase(ms, ledger)} for "
            f"{count(each.tensors, 'tensor')}; `fused=True` updates them in one pass.",
            span=span(each.made),
            cure="fused=True",
            confidence="measured",
            metrics=(Metric("optimizer", ms, "ms"), Metric("tensors", each.tensors, "tensors")),
            saving=ledger.at_stake(saved_ms),
            claims=ledger.chosen("optimizer"),
            changes=("fused-optimizer",),
        )


def _can_fuse(machine: Machine, device: str) -> bool:
    torch = machine.package("torch")
    if device == "cuda" or torch is None:
        return True
    release = tuple(int(part) for part in torch.version.split(".")[:2] if part.isdigit())
    return release >= ON_A_CPU


def _spent_ms(recording: Recording, ledger: Ledger) -> float:
    """What the optimizers take; on a CPU without their wait for a core, which the ledger knows."""
    spent_ms, known_ms = recording.evidence.median_ms("optimizer_ms"), ledger.total("optimizer")
    return known_ms if ledger.device == "cpu" and known_ms else max(spent_ms, known_ms)


def _work(optimizer: Optimizer) -> int:
    """What tells several optimizers apart: their numbers, and the starts of their tensors."""
    return optimizer.parameters + A_TENSOR * optimizer.tensors


def _floor_ms(recording: Recording, optimizer: Optimizer) -> float:
    """The least that one pass over the parameters takes; zero where nobody measured."""
    limits = recording.limits
    if limits is None or not limits.copy_bytes_per_s:
        return 0.0
    return optimizer.parameters * TRAFFIC_BYTES / limits.copy_bytes_per_s * 1e3
