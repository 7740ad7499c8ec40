import pytest

from diagnose.builders import line, recording, steps, without_ledger
from pitstop.core.evidence import Kept, Memory
from pitstop.diagnose.rules.memory_grows import memory_grows

OUTPUTS = Kept(line(20), 8 * 2**20, holder="outputs", kept_at=line(22))
GROWING = range(500, 580, 8)


def run(host, *kept):
    memory = tuple(Memory(at + 1.0, host_bytes=size * 2**20) for at, size in enumerate(host))
    return recording(kept=kept or (OUTPUTS,), memory=memory, steps=steps(10))


def test_names_the_growth_and_the_line_that_keeps_it():
    (finding,) = memory_grows(run(GROWING))
    assert (finding.code, finding.span.line) == ("PIT502", 22)
    assert finding.message == (
        "Memory grows by 8.0 MiB a step: 8.0 MiB made at train.py:20 are kept by `outputs`."
    )


def test_a_gpus_own_memory_is_what_counts_there():
    memory = tuple(Memory(at + 1.0, gpu_peak_bytes=(1000 + 8 * at) * 2**20) for at in range(10))
    made = recording(kept=(OUTPUTS,), memory=memory, steps=steps(10))
    assert len(memory_grows(made)) == 1


@pytest.mark.parametrize(
    "run",
    [
        run([500] * 10),  # replaced in each step
        run([500, 508, 516, 524, 524, 524, 524, 524, 524, 524]),  # a cache that is full
        run(GROWING[:5]),  # too few samples to tell
        run(GROWING, Kept(line(20), 1000, holder="scores")),
        run(GROWING, Kept(line(20), 8 * 2**20, graph=True)),  # another rule's
        recording(),
        without_ledger(kept=(OUTPUTS,)),
    ],
)
def test_quiet(run):
    assert memory_grows(run) == []
