import pytest

from diagnose.builders import loader, recording, without_ledger
from pitstop.core.evidence import Memory
from pitstop.core.ledger import Row
from pitstop.core.machine import Gpu, Machine
from pitstop.diagnose.rules.batch_headroom_unused import batch_headroom_unused

GIB = 2**30


def run(launch_ms=30.0, peak_gib=10, batches=10, **settings):
    return recording(
        Row("launch", launch_ms),
        device="cuda",
        loaders=(loader(batches=batches, **settings),),
        memory=(Memory(1.0, gpu_peak_bytes=peak_gib * GIB),),
        machine=Machine(gpus=(Gpu(memory_bytes=40 * GIB),)),
        step_kind="optimizer",
    )


def test_names_the_loader_and_what_a_double_batch_saves_at_most():
    (finding,) = batch_headroom_unused(run())
    assert (finding.code, finding.severity, finding.span.line) == ("PIT509", "note", 5)
    assert finding.message.endswith("15 % at most.")
    assert finding.saving is None  # a sample costs less, the step does not
    assert finding.cure == "a larger batch"


def test_knows_accumulated_batches():
    (finding,) = batch_headroom_unused(run(batches=120))
    assert ", and 12 batches are accumulated: " in finding.message
    assert finding.cure == "a larger batch, and fewer of them to a step"


@pytest.mark.parametrize(
    "run",
    [
        run(launch_ms=8.0),
        run(peak_gib=20),
        run(peak_gib=0),
        run(trains=False),
        recording(),
        without_ledger(),
    ],
)
def test_quiet(run):
    assert batch_headroom_unused(run) == []
