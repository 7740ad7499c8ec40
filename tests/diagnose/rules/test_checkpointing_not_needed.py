from dataclasses import replace

import pytest

from diagnose.builders import backward_passes, call, recording, without_ledger, work
from pitstop.core.evidence import Memory
from pitstop.core.machine import Gpu, Machine
from pitstop.diagnose.rules.checkpointing_not_needed import checkpointing_not_needed

GIB = 2**30
GPU = Gpu(memory_bytes=40 * GIB)
CALLS = (
    call("block", 86),
    call("attention", 71, recomputed=True),
    call("mlp", 3, 1, recomputed=True),
)


def run(again_us=20.0, moved_gib=30, peak_gib=24, passes=1, gpus=(GPU,)):
    operations = (
        work(again_us / 2, 2, phase="backward", moved_bytes=moved_gib * GIB),
        work(again_us / 2, phase="backward"),  # of a function, in no module
        work(10.0, 1, phase="backward", backward=True),
        work(90 - again_us, 0),
        backward_passes(passes),
    )
    memory = (Memory(1.0, gpu_peak_bytes=peak_gib * GIB),)
    machine = Machine(gpus=gpus)
    return recording(calls=CALLS, operations=operations, memory=memory, machine=machine)


def test_names_what_is_computed_again_and_the_memory_it_would_take():
    (finding,) = checkpointing_not_needed(run())
    assert (finding.code, finding.span.line) == ("PIT508", 71)
    assert (finding.saving, finding.confidence) == (pytest.approx(0.20), "suspected")
    assert finding.message == (
        "Checkpointing computes 20.0 ms of 100 ms again; without it the peak of 24.0 GiB would be "
        "about 34.0 GiB of 40.0 GiB."
    )


def test_the_batches_of_an_accumulated_step_need_their_memory_one_after_the_other():
    assert checkpointing_not_needed(run(moved_gib=60, passes=2)) != []


def test_a_view_keeps_no_memory_of_its_own():
    made = run()
    view = work(0.0, 2, phase="backward", moved_bytes=99 * GIB)
    operations = (*made.evidence.operations, view)
    viewed = replace(made, ranks=(replace(made.evidence, operations=operations),))
    viewed.__dict__["ledger"] = made.ledger
    assert checkpointing_not_needed(viewed) == checkpointing_not_needed(made)


def test_a_function_that_is_computed_again_is_named_by_its_dearest_line():
    made = run()
    plain = replace(made, ranks=(replace(made.evidence, calls=()),))
    plain.__dict__["ledger"] = made.ledger
    (finding,) = checkpointing_not_needed(plain)
    assert (finding.span.path, finding.span.line) == ("model.py", 99)


@pytest.mark.parametrize(
    "run",
    [
        run(moved_gib=60),  # would not fit
        run(again_us=4.0),
        run(gpus=()),
        run(peak_gib=0),
        recording(),
        without_ledger(calls=CALLS),
    ],
)
def test_quiet(run):
    assert checkpointing_not_needed(run) == []
