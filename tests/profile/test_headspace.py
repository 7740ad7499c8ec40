"""After --quick has seen enough, some steps get their batches from memory."""

import pytest

KEPT = 4  # batches: those of two steps


def told(ran):
    steps, train, val = map(int, ran.out.split())
    return steps, train // 4, val


@pytest.mark.parametrize("workers", ["0", "1"])
def test_steps_are_fed_from_memory_and_are_none_of_the_recording(profiled, workers):
    ran = profiled("headspace.py", workers, ours=("--quick",))
    assert ran.code == 0, ran.err
    seen, (steps, batches, validations) = ran.evidence, told(ran)
    assert (seen.headspace.steps, seen.headspace.batches) == (8, KEPT)
    assert 0 < seen.headspace.step_ms < 1000
    more = steps - len(seen.steps)
    assert more >= 2 + 8
    assert validations == steps // 5
    if workers == "0":
        assert batches == 2 * len(seen.steps) + KEPT
    assert b"With its batches in memory a step takes" in b" ".join(ran.err.split())


def test_nothing_is_told_of_batches_that_are_written_to(profiled):
    ran = profiled("headspace.py", "0", "writes", ours=("--quick",))
    assert ran.code == 0, ran.err
    assert ran.evidence.headspace is None
    assert told(ran)[0] <= len(ran.evidence.steps) + 3


def test_without_quick_no_batch_is_given_twice(profiled):
    ran = profiled("headspace.py", "0", ours=("--steps", "30"))
    steps, batches, _ = told(ran)
    assert (steps, batches) == (29, 60)  # the last one ends the run
    assert ran.evidence.headspace is None
