"""PIT006 workers-start-by-spawn."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Machine
from pitstop.core.rule import rule

FRESH_STARTS = ("spawn", "forkserver")  # both import the training script anew in each worker


@rule("PIT006")
def workers_start_by_spawn(machine: Machine) -> Iterator[Finding]:
    """DataLoader workers start as fresh Pythons here, which costs seconds every epoch.

    Windows, macOS and Python 3.14 do not fork: each worker imports torch and the script again,
    at the start of every epoch unless the workers persist. A script without an
    ``if __name__ == "__main__":`` guard starts itself over and over, and seems to hang.

    Bad:
        Machine(system="Windows", start_method="spawn", workers=8)

    Good:
        Machine(system="Linux", start_method="fork", workers=8)
    """
    if machine.start_method not in FRESH_STARTS or machine.workers == 0:
        return
    torch = machine.package("torch")
    seconds = torch.import_seconds if torch and torch.import_seconds else None
    cost = f" and import torch ({seconds:.1f} s)" if seconds else ""
    each = f"each of {machine.workers} workers" if machine.workers else "each worker"
    yield Finding(
        f"{machine.start_method}: {each} must start a new Python{cost} every epoch",
        item="workers",
        cure='DataLoader(persistent_workers=True), started under if __name__ == "__main__":',
        severity="warning" if machine.workers else "note",
    )
