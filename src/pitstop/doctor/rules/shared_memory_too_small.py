"""PIT005 shared-memory-too-small."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.machine import Machine
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes

DOCKER_DEFAULT_BYTES = 64 * 2**20  # what a container gets unless told; one video batch fills it
PREFETCH = 2  # batches each DataLoader worker keeps ready, PyTorch's default
GIBIBYTE = 2**30


@rule("PIT005")
def shared_memory_too_small(machine: Machine) -> Iterator[Finding]:
    """Shared memory is too small for the batches that the workers keep ready.

    DataLoader workers pass batches on through /dev/shm: batch size x prefetch x workers. When
    it is full the worker is killed ("Bus error", "DataLoader worker is killed by signal").

    Bad:
        Machine(shared_memory_bytes=64 * 2**20, container=True)

    Good:
        Machine(shared_memory_bytes=8 * 2**30, container=True)
    """
    size = machine.shared_memory_bytes
    if size is None or machine.workers == 0:
        return
    if machine.workers and machine.batch_bytes:
        needed = machine.batch_bytes * PREFETCH * machine.workers
        free = (
            size if machine.shared_memory_free_bytes is None else machine.shared_memory_free_bytes
        )
        if needed <= free:
            return
        yield Finding(
            f"{binary_bytes(free)} free, but {machine.workers} workers x {PREFETCH} batches x "
            f"{binary_bytes(machine.batch_bytes)} need {binary_bytes(needed)}",
            item="shared memory",
            cure=_enlarge(machine, needed),
            severity="error",
            metrics=(Metric("needed", needed, "B"), Metric("free", free, "B")),
        )
    elif size <= DOCKER_DEFAULT_BYTES:
        yield Finding(
            f"{binary_bytes(size)} in all, which one worker's video batches can fill",
            item="shared memory",
            cure=_enlarge(machine, 0),
        )


def _enlarge(machine: Machine, needed: int) -> str:
    gibibytes = 1 << max(3, (2 * needed // GIBIBYTE).bit_length())  # 8 GiB, or twice the need
    if machine.container:
        return f"docker run --shm-size={gibibytes}g ... (or --ipc=host)"
    return f"sudo mount -o remount,size={gibibytes}G /dev/shm"
