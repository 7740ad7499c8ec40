"""GPU memory as the script's own steps take it, whatever inspected ones took besides."""

from pitstop.core.evidence import Evidence, Memory
from pitstop.core.memory import peak_bytes, undisturbed


def run(peaks, inspected=()):
    """A reading a second."""
    memory = [
        Memory(float(n + 1), gpu_peak_bytes=peak, inspected=n in inspected)
        for n, peak in enumerate(peaks)
    ]
    return Evidence(memory=(Memory(0.5, host_bytes=9), *memory))


def peaks(evidence):
    return [each.gpu_peak_bytes for each in undisturbed(evidence)]


def test_without_inspected_steps_every_reading_counts():
    assert peaks(run([20, 29, 29])) == [20, 29, 29]


def test_what_an_inspected_step_took_is_not_the_scripts_nor_what_is_read_after_it():
    evidence = run([20, 29, 29, 44, 51, 51, 51], inspected=(3, 4))
    assert peaks(evidence) == [20, 29, 29]
    assert peak_bytes(evidence) == 29


def test_a_later_peak_above_all_that_was_read_is_the_scripts_again():
    assert peaks(run([20, 29, 44, 44, 52], inspected=(2,))) == [20, 29, 52]


def test_unknown_where_the_first_step_is_inspected():
    assert peak_bytes(run([44, 44], inspected=(0,))) == 0
    assert peak_bytes(Evidence()) == 0
