"""Recordings from an H200, thought about again: they add up, and an expert's causes come first."""

from pathlib import Path

import pytest

from pitstop.core import store
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.workloads import expect

FOLDER = Path(__file__).parent.parent / "evidence"
ADDS_UP = 0.02  # of a step, before anything is scaled to fit


def recorded(name):
    return store.load(FOLDER / f"{name}_h200.json", Recording)


@pytest.fixture(scope="module")
def decode():
    return recorded("vae_decode")


@pytest.fixture(scope="module")
def training():
    return recorded("frame_interpolation")


def micros(rows):
    return sum(each.micros for each in rows)


@pytest.mark.parametrize("name", ["vae_decode", "frame_interpolation"])
def test_the_rows_add_up_to_the_step(name):
    ledger = recorded(name).ledger
    assert ledger.total() == pytest.approx(ledger.step_ms)
    assert ledger.floor_known


def test_what_the_decoders_operations_took_is_the_step(decode):
    """The GPU never idles here: the host queues several decodings ahead of it."""
    busy_ms = sum(each.device_micros or 0.0 for each in decode.evidence.operations) / 1e3
    assert busy_ms == pytest.approx(decode.ledger.step_ms, rel=ADDS_UP)


def test_kernels_and_gaps_of_the_training_are_the_step_they_were_read_in(training):
    evidence = training.evidence
    found_ms = (micros(evidence.kernels) + micros(evidence.gaps)) / 1e3
    assert found_ms == pytest.approx(evidence.timeline_ms, rel=ADDS_UP)
    low, high = evidence.quartiles_ms()
    assert low < found_ms < high  # its steps differ by more than that among themselves


def test_the_decoder_is_held_up_by_its_norms_then_by_layouts(decode):
    findings = diagnose(decode)
    assert [each.code for each in findings] == ["PIT605", "PIT605", "PIT406"]
    assert all("`native_group_norm`" in each.message for each in findings[:2])
    assert all("28 times" in each.message for each in findings[:2])
    norms = sum(each.saving for each in findings if each.code == "PIT605")
    assert 0.45 < norms < 0.60
    assert findings[2].saving == pytest.approx(0.094, abs=0.005)


def test_the_training_is_held_up_by_what_an_expert_finds(training):
    findings = diagnose(training)
    first = findings[0]
    assert (first.code, first.span.end_line) == ("PIT613", 98)  # the discriminator times zero
    assert 0.13 < first.saving < 0.19
    assert findings[1].code == "PIT406"
    assert 0.10 < findings[1].saving < 0.14
    (encoder,) = [each for each in findings if each.code == "PIT601"]
    assert encoder.message.startswith("`encoder` is called 3 times a step")
    assert encoder.saving > 0.02
    (workers,) = [each for each in findings if each.code == "PIT104"]
    assert workers.saving > 0.05  # the wait for data is that for new workers, once an epoch
    assert training.ledger.share(training.ledger.total("data")) < 0.01


EXPECTED = [
    each
    for each in expect.load("frame_interpolation").run
    if each.device != "cpu" and each.code not in {"PIT609", "PIT601"}
]


@pytest.mark.parametrize("expected", EXPECTED, ids=[f"{each.code}-{each.at}" for each in EXPECTED])
def test_the_training_shows_what_is_expected_of_it(expected, training):
    """But PIT609, which has no rule, and PIT601, recorded before calls knew who calls them."""
    line = expect.line_of("frame_interpolation", expected)
    places = [
        (each.span.line, each.span.end_line)
        for each in diagnose(training)
        if each.code == expected.code and each.span and each.span.path.endswith(expected.file)
    ]
    assert any(first <= line <= last for first, last in places), f"line {line}, found {places}"


def test_the_training_shows_nothing_that_an_expert_would_not_agree_with(training):
    never = {each.code for each in expect.load("frame_interpolation").never}
    assert [each for each in diagnose(training) if each.code in never] == []
