import pytest

from diagnose.builders import line, recording, steps, without_ledger
from pitstop.core.evidence import Optimizer
from pitstop.core.ledger import Row
from pitstop.core.machine import Limits, Machine, Package
from pitstop.diagnose.rules.optimizer_not_fused import optimizer_not_fused

ADAM = Optimizer("Adam", parameters=10**6, tensors=80, made=line(98))
SLOW = Limits("cuda:0", copy_bytes_per_s=2.8e9)  # one pass over a million numbers takes 10 ms


def run(*optimizers, optimizer_ms=20.0, torch="2.13.0+cpu", limits=(), device="cuda"):
    machine = Machine(packages=(Package("torch", torch),), limits=limits)
    taken = steps(optimizer_ms=optimizer_ms)
    return recording(device=device, machine=machine, steps=taken, optimizers=optimizers)


def test_names_the_optimizer_and_its_part_of_the_step():
    (finding,) = optimizer_not_fused(run(ADAM))
    assert (finding.code, finding.span.line) == ("PIT606", 98)
    assert (finding.saving, finding.changes) == (pytest.approx(0.20), ("fused-optimizer",))
    assert finding.message == (
        "`Adam` takes 20.0 ms of 100 ms for 80 tensors; `fused=True` updates them in one pass."
    )


def test_what_one_pass_must_take_is_not_promised():
    (finding,) = optimizer_not_fused(run(ADAM, limits=(SLOW,)))
    assert finding.saving == pytest.approx(0.10)


def test_two_optimizers_share_the_time_by_their_numbers_and_tensors():
    second = Optimizer("SGD", parameters=3 * 10**6, tensors=240, fused=True)
    (finding,) = optimizer_not_fused(run(ADAM, second, optimizer_ms=40.0))
    assert finding.saving == pytest.approx(0.10)


def test_a_small_adversary_gets_a_small_part_of_a_large_generators_time():
    generator = Optimizer("Adam", parameters=54 * 10**6, tensors=17)
    judge = Optimizer("Adam", parameters=3 * 10**6, tensors=9)
    (finding,) = optimizer_not_fused(run(generator, judge, optimizer_ms=40.0))
    assert finding.saving == pytest.approx(0.38, abs=0.005)


def test_on_a_cpu_the_wait_for_a_core_is_no_work_of_the_optimizer():
    ledger = Row("optimizer", 10.0), Row("core", 50.0)
    taken = steps(optimizer_ms=25.0)
    (finding,) = optimizer_not_fused(recording(*ledger, optimizers=(ADAM,), steps=taken))
    assert finding.metrics[0].value == pytest.approx(10.0)


@pytest.mark.parametrize(
    "run",
    [
        run(ADAM, optimizer_ms=4.0),
        run(Optimizer("Adam", tensors=80, fused=True)),
        run(Optimizer("Lion", tensors=80)),
        run(ADAM, optimizer_ms=4.0, device="cpu"),
        run(ADAM, optimizer_ms=40.0, torch="2.3.1+cpu", device="cpu"),  # a CPU has it from 2.4 on
        recording(),
        without_ledger(optimizers=(ADAM,)),
    ],
)
def test_quiet(run):
    assert optimizer_not_fused(run) == []


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_share_of_the_step_decides_not_the_number_of_tensors(device):
    few = Optimizer("AdamW", parameters=10**6, tensors=12)
    (finding,) = optimizer_not_fused(run(few, optimizer_ms=24.0, device=device))
    assert finding.saving == pytest.approx(0.24)


def test_a_gpu_could_fuse_long_before():
    assert optimizer_not_fused(run(ADAM, torch="2.0.1")) != []
