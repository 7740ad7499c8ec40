from dataclasses import replace

import pytest

from diagnose.builders import line, operation, recording, sampled, without_ledger
from pitstop.core.evidence import Settings
from pitstop.core.ledger import Row
from pitstop.core.machine import Machine
from pitstop.diagnose.rules.host_work_in_step import host_work_in_step

OWN = "work/train.py:train"


def run(ms=60.0, inside=OWN, **more):
    seen = sampled(line(7), 60, inside), sampled(line(9), 40, "autograd/graph.py:run")
    return recording(Row("python", ms, "", line(7)), **{"sampled": seen} | more)


@pytest.mark.parametrize("inside", [OWN, "PIL/Image.py:resize", "numpy/_core/fromnumeric.py:sort"])
def test_names_the_line_and_what_it_takes(inside):
    (finding,) = host_work_in_step(run(inside=inside))
    assert (finding.code, finding.span.line) == ("PIT212", 7)
    assert finding.saving == pytest.approx(0.60)
    assert "of `train` itself, no work of torch, takes 60.0 ms of 100 ms" in finding.message


def test_never_claims_more_than_the_ledger_has_for_the_line():
    (finding,) = host_work_in_step(run(ms=30.0))
    assert finding.saving == pytest.approx(0.30)


@pytest.mark.parametrize("inside", ["modules/module.py:_call_impl", "optim/adam.py:adam"])
def test_quiet_where_the_python_is_torchs_own(inside):
    assert host_work_in_step(run(inside=inside)) == []


def test_quiet_below_a_fifth_of_the_step():
    assert host_work_in_step(run(ms=19.0)) == []


def test_quiet_where_a_fifth_of_the_step_is_short():
    made = run()
    small = replace(made.ledger, step_ms=8.0, rows=(Row("python", 4.8, "", line(7)),))
    made.__dict__["ledger"] = small
    assert host_work_in_step(made) == []


def test_quiet_while_the_script_waits_for_its_loader():
    seen = (sampled(line(7), 60, OWN, waiting=True), sampled(line(9), 40, OWN))
    assert host_work_in_step(run(sampled=seen)) == []


def test_a_loop_over_numbers_is_another_rules():
    reads = operation("_local_scalar_dense", line(7), calls=500), operation("select", line(7))
    assert host_work_in_step(run(operations=reads)) == []


def test_what_one_rank_does_alone_is_another_rules():
    made = run()
    other = replace(made.evidence, rank=1, sampled=(sampled(line(9), 40, OWN),))
    both = replace(made, ranks=(made.evidence, other))
    both.__dict__["ledger"] = made.ledger
    assert host_work_in_step(both) == []


def test_quiet_without_steps():
    assert host_work_in_step(without_ledger()) == []


def frames(cores=8, model_ms=60.0, device="cuda", **more):
    """A loop that decodes a frame at line 7 and writes one at line 9, on a GPU or a CPU."""
    seen = sampled(line(7), 25, OWN), sampled(line(9), 15, OWN), sampled(line(8), 60, "torch/nn")
    rows = Row("python", 25.0, "", line(7)), Row("python", 15.0, "", line(9))
    machine = Machine(cores=cores)
    usual = {"sampled": seen, "step_kind": "module", "machine": machine, "device": device}
    return recording(*rows, **usual | more)


def test_a_loop_over_frames_is_told_as_a_whole():
    (finding,) = host_work_in_step(frames())
    assert finding.saving == pytest.approx(0.40)
    assert finding.span.line == 7
    assert finding.message == (
        "Between the calls of the model Python of the script itself (train.py:7, 9) takes 40.0 ms "
        "of 100 ms."
    )
    assert "thread" in finding.cure


def test_a_thread_saves_nothing_where_other_programs_leave_no_core():
    settings = Settings(device="cpu", threads=2)
    (finding,) = host_work_in_step(frames(cores=2, device="cpu", settings=settings, others=0.5))
    assert (finding.severity, finding.saving) == ("note", None)
    (finding,) = host_work_in_step(frames(cores=2, device="cpu", settings=settings))
    assert finding.saving == pytest.approx(0.20)  # the decoding took one core of the two


def test_a_loop_that_decodes_for_longer_than_the_model_computes_is_as_long_as_the_decoding():
    rows = Row("python", 70.0, "", line(7))
    made = recording(rows, sampled=(sampled(line(7), 70, OWN),), step_kind="module", device="cuda")
    (finding,) = host_work_in_step(made)
    assert finding.saving == pytest.approx(0.30)
