"""Recordings from an H200, thought about again: they add up, and an expert's causes come first."""

from pathlib import Path

import pytest

from pitstop.core import store
from pitstop.core.memory import peak_bytes
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.workloads import expect

FOLDER = Path(__file__).parent.parent / "evidence"
NAMES = sorted(path.stem.removesuffix("_h200") for path in FOLDER.glob("*_h200.json"))
LARGEST_BYTES = 1_000_000  # of a recording in the repository
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


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_add_up_to_the_step(name):
    ledger = recorded(name).ledger
    assert ledger.total() == pytest.approx(ledger.step_ms)
    assert ledger.floor_known


@pytest.mark.parametrize("name", NAMES)
def test_what_the_device_did_fits_into_the_step(name):
    """Operations, and kernels with the gaps between them, before the ledger makes them fit.

    Where nothing waits for the GPU, as in inference, a step of the host is none of the device.
    """
    evidence, ledger = recorded(name).evidence, recorded(name).ledger
    busy_ms = sum(each.device_micros or 0.0 for each in evidence.operations) / 1e3
    assert busy_ms < ledger.step_ms * (1 + ADDS_UP)
    if evidence.timeline_ms and evidence.step_kind == "optimizer":
        found_ms = (micros(evidence.kernels) + micros(evidence.gaps)) / 1e3
        assert found_ms == pytest.approx(evidence.timeline_ms, rel=ADDS_UP)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_can_be_checked_and_no_saving_exceeds_what_is_there(name):
    recording = recorded(name)
    findings = diagnose(recording)
    assert [each for each in findings if each.message.startswith("This could not")] == []
    spare = 1 - recording.ledger.share(recording.ledger.floor_ms)
    assert all((each.saving or 0.0) <= spare for each in findings if each.per == "step")
    assert (FOLDER / f"{name}_h200.json").stat().st_size < LARGEST_BYTES


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
    assert {each.code for each in findings[1:3]} == {"PIT406", "PIT206"}
    assert all(0.10 < each.saving < 0.14 for each in findings[1:3])
    (encoder,) = [each for each in findings if each.code == "PIT601"]
    assert encoder.message.startswith("`encoder` is called 3 times a step")
    assert encoder.saving > 0.02
    (workers,) = [each for each in findings if each.code == "PIT104"]
    assert workers.saving > 0.05  # the wait for data is that for new workers, once an epoch
    assert training.ledger.share(training.ledger.total("data")) < 0.01


def places(findings, code):
    """Lines and savings of all findings of a rule, dearest first."""
    return [(each.span.line, each.saving) for each in findings if each.code == code and each.span]


def test_a_public_interpolation_model_is_held_up_by_the_same_causes():
    """LDMVFI's first stage, whose discriminator is multiplied by zero in its first epochs."""
    findings = diagnose(recorded("ldmvfi"))
    first, second, third = findings[:3]
    assert (first.code, first.span.line) == ("PIT613", 152)
    assert 0.17 < first.saving < 0.21
    assert second.code == "PIT406"
    assert 0.13 <= second.saving <= 0.19
    assert third.message.startswith("`encoder` is called 3 times a step")
    assert third.saving > 0.02
    assert "PIT206" not in {each.code for each in findings}  # the GPU idles for 8 % in all


def test_a_public_restoration_model_leaves_tf32_unused_and_is_launch_bound():
    """VRT: TF32 alone took 297 ms off its step, some of it inside torchvision's own products."""
    recording = recorded("vrt")
    findings, ledger = diagnose(recording), recording.ledger
    tf32, launches, elementwise = findings[:3]
    assert (tf32.code, launches.code, elementwise.code) == ("PIT301", "PIT206", "PIT615")
    assert 250 < tf32.metrics[0].value < 297
    assert "27229 kernels" in launches.message
    assert 0.10 < launches.saving < 0.15
    assert 0.20 < ledger.share(elementwise.metrics[0].value) < 0.22  # sums, copies and products
    assert 0.09 < elementwise.saving < 0.12
    assert ledger.total("launch") > 3 * ledger.total("python")  # 9 s in its timeline are our own


def test_what_inspection_took_in_the_restoration_model_is_not_its_memory():
    recording = recorded("vrt")
    assert peak_bytes(recording.evidence) / 2**30 == pytest.approx(28.98, abs=0.01)
    assert max(each.gpu_peak_bytes or 0 for each in recording.evidence.memory) / 2**30 > 50
    assert "PIT502" not in {each.code for each in diagnose(recording)}


def test_pictures_written_in_the_step_come_before_the_copies_that_wait():
    """Of 1587 samples 599 were at the line that writes PNGs, 410 at the copy of each tile."""
    findings = diagnose(recorded("tiled_vae"))
    first = findings[0]
    assert (first.code, Path(first.span.path).name, first.span.line) == ("PIT212", "data.py", 79)
    assert 0.25 < first.saving < 599 / 1587
    ((line, copies),) = places(findings, "PIT203")
    assert line == 74
    assert copies < 410 / 1587
    assert [line for line, _ in places(findings, "PIT204")] == [80]
    assert [line for line, _ in places(findings, "PIT209")] == [79]  # none of the loader's


EXPECTED = [
    each
    for each in expect.load("frame_interpolation").run
    if each.device != "cpu" and each.code != "PIT601"
]


@pytest.mark.parametrize("expected", EXPECTED, ids=[f"{each.code}-{each.at}" for each in EXPECTED])
def test_the_training_shows_what_is_expected_of_it(expected, training):
    """But PIT601, which was recorded before calls knew who calls them."""
    line = expect.line_of("frame_interpolation", expected)
    found = [
        (each.span.line, each.span.end_line)
        for each in diagnose(training)
        if each.code == expected.code and each.span and each.span.path.endswith(expected.file)
    ]
    assert any(first <= line <= last for first, last in found), f"line {line}, found {found}"


def test_the_training_shows_nothing_that_an_expert_would_not_agree_with(training):
    never = {each.code for each in expect.load("frame_interpolation").never}
    assert [each for each in diagnose(training) if each.code in never] == []
