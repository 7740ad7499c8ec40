import pytest

from diagnose.builders import line, recording, without_ledger
from pitstop.core.evidence import Operation
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.cache_emptied_in_loop import cache_emptied_in_loop

EMPTIES = Operation("torch.cuda.empty_cache", line(20), "", 6, 5000.0)
OTHER = Operation("torch.cuda.synchronize", line(21), "", 6, 5000.0)


def run_of(*rows, device="cuda"):
    return recording(*rows, device=device, operations=(EMPTIES, OTHER))


def test_names_the_line_and_the_idle_time_that_it_causes():
    rows = (
        Row("sync", 6, "", line(20)),
        Row("python", 2, "", line(20)),
        Row("sync", 9, "", line(21)),
    )
    (finding,) = cache_emptied_in_loop(run_of(*rows))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT204", 20, 0.08)
    assert finding.changes == ("no-empty-cache",)


def test_idle_time_of_no_known_line_is_explained_as_long_as_the_call_took():
    (finding,) = cache_emptied_in_loop(run_of(Row("python", 30)))
    assert finding.saving == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("row", "device"),
    [
        (Row("sync", 0.9, "", line(20)), "cuda"),
        (Row("python", 30, "", line(22)), "cuda"),
        (Row("data", 30), "cuda"),
        (Row("sync", 5, "", line(20)), "cpu"),
    ],
)
def test_quiet_where_it_costs_nothing(row, device):
    assert cache_emptied_in_loop(run_of(row, device=device)) == []


def test_quiet_without_evidence():
    assert cache_emptied_in_loop(without_ledger(operations=(EMPTIES,))) == []
    assert cache_emptied_in_loop(recording(Row("sync", 5, "", line(20)), device="cuda")) == []
