import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.evidence import Kernel, Loader
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.blocking_copy import blocking_copy

SIZE = 4 << 20


def copied(shapes="float32[8,3,256,256]@cpu", name="_to_copy", waits=True, size=SIZE, at=20):
    return operation(name, line(at), shapes, waits=waits, moved_bytes=2 * size)


def test_names_each_line_with_what_the_ledger_has_for_it():
    rows = Row("transfer", 4, "", line(20)), Row("sync", 1, "", line(20)), Row("sync", 9)
    (finding,) = blocking_copy(recording(*rows, device="cuda", operations=(copied(),)))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT203", 20, 0.05)
    assert finding.message == (
        "4.0 MiB are copied to the GPU, and Python waits: 5.00 ms of 100 ms."
    )
    assert finding.changes == ("non-blocking",)


@pytest.mark.parametrize("trains", [True, False])
def test_what_no_loader_could_pin_is_left_to_the_user(trains):
    """From a tensor in ordinary memory a copy waits, whatever it is told."""
    found = recording(
        Row("transfer", 5, "", line(20)),
        device="cuda",
        operations=(copied(),),
        transfers=(Kernel("Memcpy HtoD (Pageable -> Device)", 1, 5e3),),
        loaders=(Loader("Photographs", 2, batches=9, trains=trains),),
    )
    (finding,) = blocking_copy(found)
    assert finding.changes == (("non-blocking",) if trains else ())


def test_a_copy_off_the_gpu_needs_an_event():
    away = copied("float32[1,3,512,512]@cuda")
    (finding,) = blocking_copy(
        recording(Row("transfer", 4, "", line(20)), device="cuda", operations=(away,))
    )
    assert "off the GPU" in finding.message
    assert "event" in finding.cure
    assert finding.changes == ()


def test_the_source_of_an_assignment_is_its_second_tensor():
    into = copied("float32[1,3,512,512]@cuda float32[1,3,512,512]@cpu", name="copy_")
    (finding,) = blocking_copy(
        recording(Row("transfer", 4, "", line(20)), device="cuda", operations=(into,))
    )
    assert "to the GPU" in finding.message


@pytest.mark.parametrize(
    ("operation", "ms", "device"),
    [
        (copied(waits=False), 4, "cuda"),
        (copied(size=1000), 4, "cuda"),  # a number is read: sync-in-hot-loop
        (copied(name="clone"), 4, "cuda"),
        (copied(), 0.9, "cuda"),
        (copied(), 4, "cpu"),
    ],
)
def test_quiet_where_nothing_waits_or_it_costs_nothing(operation, ms, device):
    rows = Row("transfer", ms, "", line(20))
    assert blocking_copy(recording(rows, device=device, operations=(operation,))) == []


def test_quiet_without_evidence():
    assert blocking_copy(without_ledger(operations=(copied(),))) == []
    assert blocking_copy(recording(device="cuda")) == []
