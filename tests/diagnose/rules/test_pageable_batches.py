import pytest

from diagnose.builders import line, loader, operation, recording
from pitstop.core.evidence import Kernel
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.pageable_batches import pageable_batches

COPIES_AT = line(20)
PAGEABLE = Kernel("Memcpy HtoD (Pageable -> Device)", 1, 900.0)
PINNED = Kernel("Memcpy HtoD (Pinned -> Device)", 1, 300.0)
NUMBERS = Kernel("Memcpy HtoD (Pageable -> Device)", 40, 60.0)


def copies(ms=8.0, device="cuda", size=4 << 20, source="cpu", **evidence):
    shapes = f"float32[8,3,256,256]@{source}"
    moved = operation("_to_copy", COPIES_AT, shapes, waits=True, moved_bytes=2 * size)
    rows = Row("transfer", ms, "", COPIES_AT)
    return recording(rows, device=device, operations=(moved,), **evidence)


def test_names_the_loader_that_does_not_pin():
    (finding,) = pageable_batches(copies(loaders=(loader(),)))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT103", 5, 0.08)
    assert finding.message == (
        "4.0 MiB a step are copied to the GPU from memory that is not pinned, which costs "
        "8.00 ms of 100 ms."
    )


@pytest.mark.parametrize("loaders", [(), (loader(pinned=True),)])
def test_names_the_copy_where_the_data_is_in_memory(loaders):
    (finding,) = pageable_batches(copies(transfers=(PAGEABLE,), loaders=loaders))
    assert finding.span.line == 20
    assert finding.cure == "keep the data in pinned memory: .pin_memory()"
    assert finding.changes == ()


@pytest.mark.parametrize(
    "run",
    [
        copies(transfers=(PINNED,), loaders=(loader(),)),  # CUDA knows better
        copies(transfers=(PINNED, NUMBERS)),
        copies(loaders=(loader(pinned=True),)),
        copies(source="cuda", loaders=(loader(),)),  # off the GPU
        copies(transfers=(PINNED, Kernel("Memcpy DtoH (Device -> Pageable)", 1, 9.0))),
        copies(0.9, loaders=(loader(),)),
        copies(device="cpu", loaders=(loader(),)),
        copies(size=1 << 10, loaders=(loader(),)),  # a few labels
        copies(),  # nothing tells what memory it was
    ],
)
def test_quiet_where_pinning_would_not_help(run):
    assert pageable_batches(run) == []
