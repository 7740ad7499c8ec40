import pytest

from diagnose.builders import recording, steps, without_ledger
from pitstop.core.evidence import Memory
from pitstop.diagnose.facts.growth import growth_bytes


def growth(*sizes, gpu=(), since=1.0):
    memory = [Memory(at + since, host_bytes=size) for at, size in enumerate(sizes)]
    memory += [Memory(at + since, gpu_peak_bytes=size) for at, size in enumerate(gpu)]
    return growth_bytes(recording(memory=tuple(memory), steps=steps(9)).evidence)


def test_what_each_step_adds():
    assert growth(*range(100, 190, 10)) == pytest.approx(10)


def test_one_outlier_does_not_move_it():
    assert growth(100, 110, 120, 900, 140, 150, 160, 170, 180) == pytest.approx(10)


def test_a_gpus_memory_goes_before_the_hosts():
    assert growth(*[500] * 9, gpu=range(100, 190, 10)) == pytest.approx(10)


def test_what_inspected_steps_took_is_no_growth():
    peaks = [100, 100, 100, 140, 140, 180, 180, 180, 180]
    memory = tuple(
        Memory(at + 1.0, gpu_peak_bytes=size, inspected=at in (3, 5))
        for at, size in enumerate(peaks)
    )
    assert growth_bytes(recording(memory=memory, steps=steps(9)).evidence) is None


@pytest.mark.parametrize(
    "sizes",
    [
        [100] * 9,
        [180, 170, 160, 150, 140, 130, 120, 110, 100],
        [100, 120, 140, 160, 180, 180, 180, 180, 180],  # filled up, and stopped
    ],
)
def test_zero_where_memory_comes_to_rest(sizes):
    assert growth(*sizes) == 0.0


def test_unknown_where_too_little_was_seen_during_the_steps():
    assert growth(100, 110, 120, 130, 140) is None
    assert growth(*range(100, 190, 10), since=100.0) is None
    assert growth_bytes(without_ledger().evidence) is None
