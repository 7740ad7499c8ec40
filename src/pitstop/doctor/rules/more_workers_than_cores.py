"""PIT011 more-workers-than-cores."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.machine import Machine
from pitstop.core.rule import rule


@rule("PIT011")
def more_workers_than_cores(machine: Machine) -> Iterator[Finding]:
    """More DataLoader workers are asked for than there are cores to run them.

    The workers then take turns with each other and with the training process. In a container
    or a batch job the cores are those granted, not those the machine has.

    Bad:
        Machine(cores=4, workers=16)

    Good:
        Machine(cores=4, workers=4)
    """
    if machine.workers is None or not 0 < machine.cores < machine.workers:
        return
    yield Finding(
        f"{machine.workers} workers on {machine.cores} usable cores",
        item="workers",
        cure=f"DataLoader(num_workers={machine.cores})",
        metrics=(
            Metric("workers", machine.workers, "workers"),
            Metric("cores", machine.cores, "cores"),
        ),
    )
