import pytest

from diagnose.builders import line, loader, recording, without_ledger
from pitstop.core.evidence import Step
from pitstop.diagnose.rules.workers_respawn_each_epoch import workers_respawn_each_epoch


def run_of(**settings):
    usual = {"workers": 4, "starts": 3, "start_ms": 60.0}
    steps = (Step(100.0, data_wait_ms=10.0),) * 10  # one second
    return recording(steps=steps, loaders=(loader(**usual | settings),))


def test_counts_the_starts_after_the_first_beyond_the_usual_wait():
    (finding,) = workers_respawn_each_epoch(run_of())
    assert (finding.code, finding.span.line, finding.per) == ("PIT104", 5, "epoch")
    assert finding.saving == pytest.approx(0.1)
    assert finding.message == (
        "4 workers of `Clips` started 3 times, 50.0 ms each: 10 % of the run."
    )


def test_our_own_steps_do_not_make_the_run_longer():
    steps = (Step(9000.0), *[Step(100.0, data_wait_ms=10.0)] * 8, Step(2000.0, inspected=True))
    slow = (loader(workers=4, starts=3, start_ms=60.0),)
    (finding,) = workers_respawn_each_epoch(recording(steps=steps, warmup_steps=1, loaders=slow))
    assert finding.saving == pytest.approx(0.1)


def test_a_loader_beside_the_steps_costs_its_validation():
    held = loader(workers=2, starts=3, start_ms=60.0, trains=False, made=line(6))
    (finding,) = workers_respawn_each_epoch(recording(loaders=(held,), validation_s=1.0))
    assert (finding.span.line, finding.per) == (6, "validation")
    assert finding.saving == pytest.approx(0.06)


@pytest.mark.parametrize(
    "settings",
    [
        {"persistent": True},
        {"workers": 0},
        {"starts": 1},
        {"start_ms": 19.0},  # 18 ms of a second
        {"start_ms": 0.0},
    ],
)
def test_quiet_where_nothing_is_lost(settings):
    assert workers_respawn_each_epoch(run_of(**settings)) == []


def test_quiet_without_evidence():
    assert workers_respawn_each_epoch(without_ledger()) == []
    assert workers_respawn_each_epoch(without_ledger(loaders=(loader(workers=2, starts=3),))) == []
