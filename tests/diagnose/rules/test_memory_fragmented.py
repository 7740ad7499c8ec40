import pytest

from diagnose.builders import recording
from pitstop.core.evidence import Memory
from pitstop.core.machine import Gpu, Machine
from pitstop.diagnose.rules.memory_fragmented import memory_fragmented

GIB = 2**30


def run(reserved_gib, peak_gib, gpus=1):
    memory = (Memory(1.0, None, peak_gib * GIB, reserved_gib * GIB), Memory(2.0, 5 * GIB))
    return recording(memory=memory, machine=Machine(gpus=(Gpu(memory_bytes=40 * GIB),) * gpus))


def test_names_what_is_reserved_and_never_used():
    (finding,) = memory_fragmented(run(38, 20))
    assert (finding.code, finding.saved_bytes) == ("PIT506", 18 * GIB)
    assert finding.message == (
        "38.0 GiB of 40.0 GiB are reserved, but at most 20.0 GiB were ever in use: the rest is "
        "fragments."
    )


@pytest.mark.parametrize("run", [run(30, 10), run(38, 30), run(38, 0), run(38, 20, 0), recording()])
def test_quiet(run):
    assert memory_fragmented(run) == []
