from dataclasses import replace

import pytest

from diagnose.builders import line, recording, steps, without_ledger
from pitstop.core.evidence import Optimizer
from pitstop.diagnose.rules.parameter_groups_alike import parameter_groups_alike

ADAM = Optimizer("AdamW", 10**6, 480, True, made=line(98), groups=480, unlike_groups=2)


def run(*optimizers, optimizer_ms=20.0, device="cpu"):
    return recording(device=device, steps=steps(optimizer_ms=optimizer_ms), optimizers=optimizers)


def test_names_the_optimizer_and_what_its_groups_cost():
    (finding,) = parameter_groups_alike(run(ADAM))
    assert (finding.code, finding.span.line) == ("PIT617", 98)
    assert finding.changes == ("merge-groups",)
    assert finding.saving == pytest.approx(0.15, abs=0.005)  # 14 of 20 ms, as it was measured
    assert finding.message == (
        "`AdamW` takes 20.0 ms of 100 ms for 480 groups of parameters; 2 would do."
    )


def test_a_gpu_updates_lists_of_tensors_unless_it_is_told_not_to():
    plain = replace(ADAM, fused=False)
    assert parameter_groups_alike(run(plain, device="cuda"))
    assert parameter_groups_alike(run(replace(plain, foreach=False), device="cuda")) == []
    assert parameter_groups_alike(run(plain)) == []  # a CPU goes from tensor to tensor anyway


@pytest.mark.parametrize(
    "run",
    [
        run(ADAM, optimizer_ms=5.0),
        run(replace(ADAM, unlike_groups=480)),
        run(replace(ADAM, groups=2)),
        run(replace(ADAM, groups=4, unlike_groups=1)),  # 480 tensors cost more than their groups
        recording(),
        without_ledger(optimizers=(ADAM,)),
    ],
)
def test_quiet(run):
    assert parameter_groups_alike(run) == []
