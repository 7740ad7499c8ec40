import pytest

from diagnose.builders import line, loader, recording, sampled, without_ledger
from pitstop.core.evidence import Step
from pitstop.core.ledger import Row
from pitstop.core.machine import Machine
from pitstop.diagnose.rules.gpu_starved_by_loader import gpu_starved_by_loader


def waits(ms, device="cuda", workers=2, **evidence):
    machine = Machine(cores=4)
    fed = (loader(workers=workers),)
    return recording(Row("data", ms), device=device, machine=machine, loaders=fed, **evidence)


def test_names_the_loader_and_takes_its_saving_from_the_ledger():
    (finding,) = gpu_starved_by_loader(waits(40))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT101", 5, 0.4)
    assert finding.message == (
        "The GPU has nothing to do for 40.0 ms of 100 ms (40 %) until the next batch of `Clips` "
        "is there, which has 2 workers."
    )
    assert finding.cure == "num_workers=4, persistent_workers=True"


def test_promises_nothing_on_a_cpu_whose_cores_the_workers_share_with_the_model():
    (finding,) = gpu_starved_by_loader(waits(40, "cpu", workers=2, others=0.6))
    assert (finding.severity, finding.saving) == ("note", None)
    (finding,) = gpu_starved_by_loader(waits(40, "cpu", workers=2))
    assert (finding.severity, finding.saving) == ("warning", 0.4)


def burst(*waits_ms):
    return tuple(Step(50.0 + wait, dry_ms=wait) for wait in waits_ms)


def test_sees_workers_that_deliver_in_bursts():
    (finding,) = gpu_starved_by_loader(waits(0, steps=burst(*[0, 0, 0, 200] * 5)))
    assert finding.saving == pytest.approx(0.5)


def test_the_first_batches_of_epochs_are_another_matter():
    steps = burst(*[0, 0, 0, 0, 0, 0, 0, 400] * 3)
    made = recording(device="cuda", loaders=(loader(workers=2, starts=3),), steps=steps)
    assert gpu_starved_by_loader(made) == []


@pytest.mark.parametrize(("ms", "device"), [(4.9, "cuda"), (9.9, "cpu"), (0, "cpu")])
def test_quiet_when_the_wait_is_small(ms, device):
    assert gpu_starved_by_loader(waits(ms, device)) == []


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_leaves_a_loader_without_workers_to_its_own_rule(device):
    assert gpu_starved_by_loader(waits(40, device, workers=0)) == []


def test_says_where_a_batch_is_read():
    seen = (sampled(line(31, "data.py"), 9, waiting=True), sampled(line(7), 99))
    (finding,) = gpu_starved_by_loader(waits(40, sampled=seen))
    assert finding.message.endswith("which has 2 workers, mostly at data.py:31.")


def test_the_line_that_waits_is_not_the_one_that_reads():
    used = line(9)
    fed = (loader(workers=2, used=used),)
    seen = (sampled(used, 9, waiting=True),)
    run = recording(Row("data", 40), device="cuda", loaders=fed, sampled=seen)
    (finding,) = gpu_starved_by_loader(run)
    assert finding.message.endswith("which has 2 workers.")


@pytest.mark.parametrize(
    ("workers", "cores", "advised"), [(1, 8, 2), (3, 0, 6), (3, 8, 6), (3, 4, 4)]
)
def test_advises_twice_the_workers_as_far_as_there_are_cores(workers, cores, advised):
    run = recording(
        Row("data", 40),
        device="cuda",
        machine=Machine(cores=cores),
        loaders=(loader(workers=workers),),
    )
    (finding,) = gpu_starved_by_loader(run)
    assert finding.cure == f"num_workers={advised}, persistent_workers=True"


def test_advises_no_more_workers_than_there_are_cores():
    (finding,) = gpu_starved_by_loader(waits(40, workers=4))
    assert "num_workers" not in finding.cure


def test_a_loader_that_nothing_is_learned_from_feeds_no_step_of_an_optimizer():
    beside = (loader(workers=2, trains=False),)
    run = recording(Row("data", 40), device="cuda", step_kind="optimizer", loaders=beside)
    assert gpu_starved_by_loader(run) == []


def test_quiet_without_evidence():
    assert gpu_starved_by_loader(without_ledger()) == []
    assert gpu_starved_by_loader(recording(Row("data", 40))) == []
