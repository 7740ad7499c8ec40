"""Recordings from an H200, thought about again: they add up, and an expert's causes come first.

The numbers below are what its findings must come near to. They were read by hand in the recordings'
tables of operations, kernels, gaps and samples.
"""

from functools import cache
from pathlib import Path

import pytest

from pitstop.core import store
from pitstop.core.memory import peak_bytes
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.workloads import bench, expect

FOLDER = Path(__file__).parent.parent / "evidence"
NAMES = sorted(path.stem.removesuffix("_h200") for path in FOLDER.glob("*_h200.json"))
SYSTEMS = bench.names()
LARGEST_BYTES = 1_000_000  # of a recording in the repository
ADDS_UP = 0.02  # of a step, before anything is scaled to fit
NOBODY = 0.05  # of the step: idle time after waits that no line is named for is less


@cache
def recorded(name):
    return store.load(FOLDER / f"{name}_h200.json", Recording)


@cache
def findings(name):
    return diagnose(recorded(name))


def micros(rows):
    return sum(each.micros for each in rows)


def top(name, count=3):
    """Rule, file and line of the findings that would save most."""
    return [
        (each.code, Path(each.span.path).name, each.span.line) for each in findings(name)[:count]
    ]


def of(name, code):
    """All findings of a rule, dearest first."""
    return [each for each in findings(name) if each.code == code]


def saved_ms(name, code):
    return sum(each.saving or 0.0 for each in of(name, code)) * recorded(name).ledger.step_ms


def device_ms(name, *operations, line=0):
    """What operations took on the device in the recording's own table."""
    return sum(
        (each.device_micros or 0.0) / 1e3
        for each in recorded(name).evidence.operations
        if each.name.split(".")[1] in operations and line in (0, each.where.line)
    )


def test_all_eight_runs_are_here():
    assert set(SYSTEMS) | {"vae_decode", "ldmvfi", "vrt"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_add_up_to_the_step(name):
    ledger = recorded(name).ledger
    assert ledger.total() == pytest.approx(ledger.step_ms)
    assert ledger.floor_known


@pytest.mark.parametrize("name", NAMES)
def test_kernels_and_gaps_are_the_step_they_were_read_in(name):
    """Before the ledger makes anything fit."""
    evidence = recorded(name).evidence
    found_ms = (micros(evidence.kernels) + micros(evidence.gaps)) / 1e3
    assert found_ms == pytest.approx(evidence.timeline_ms, rel=ADDS_UP)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_device_did_fits_into_the_step_and_is_what_its_kernels_took(name):
    """Operations and kernels are of two steps; kernels of no operation have a row of their own."""
    evidence, ledger = recorded(name).evidence, recorded(name).ledger
    busy_ms = sum(each.device_micros or 0.0 for each in evidence.operations) / 1e3
    untied_ms = sum(row.ms for row in ledger.rows if row.what.startswith("kernels of no"))
    assert busy_ms + untied_ms < ledger.step_ms
    kernels_ms = micros(evidence.kernels) / 1e3
    assert busy_ms + untied_ms == pytest.approx(kernels_ms, abs=ADDS_UP * ledger.step_ms)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_can_be_checked_and_no_saving_exceeds_what_is_there(name):
    recording = recorded(name)
    assert [each for each in findings(name) if each.message.startswith("This could not")] == []
    spare = 1 - recording.ledger.share(recording.ledger.floor_ms)
    assert all((each.saving or 0.0) <= spare for each in findings(name) if each.per == "step")
    assert (FOLDER / f"{name}_h200.json").stat().st_size < LARGEST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_idle_time_after_waits_has_a_line(name):
    ledger = recorded(name).ledger
    rows = [row for row in ledger.rows if row.cause in {"sync", "transfer"} and not row.where.path]
    assert ledger.share(sum(row.ms for row in rows)) < NOBODY


EXPECTED = [
    (name, each)
    for name in SYSTEMS
    for each in expect.load(name).run
    if each.device != "cpu" and not each.when
]


@pytest.mark.parametrize(
    ("name", "expected"), EXPECTED, ids=[f"{name}-{each.code}-{each.at}" for name, each in EXPECTED]
)
def test_a_system_shows_what_is_expected_of_it(name, expected):
    line = expect.line_of(name, expected)
    found = [
        (each.span.line, each.span.end_line)
        for each in of(name, expected.code)
        if each.span and each.span.path.endswith(expected.file)
    ]
    assert any(first <= line <= last for first, last in found), f"line {line}, found {found}"


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_shows_nothing_that_an_expert_would_not_agree_with(name):
    never = {each.code for each in expect.load(name).never}
    assert [each for each in findings(name) if each.code in never] == []


def test_the_decoder_is_held_up_by_its_norms_then_by_layouts():
    """49.2 ms of the 84.6 that its kernels take are in 30 group norms, whose bytes need 1.7 ms."""
    norms, layouts = findings("vae_decode")[:2]
    assert top("vae_decode", 1) == [("PIT605", "vae_decode.py", 74)]  # that calls the library
    assert "`native_group_norm` takes 49.2 ms of 101 ms in 30 calls, 28 times" in norms.message
    assert norms.saving == pytest.approx((49.15 - 1.72) / 100.6, abs=0.01)
    assert (layouts.code, layouts.saving) == ("PIT406", pytest.approx(7.94 / 100.6, abs=0.005))
    assert device_ms("vae_decode", "native_group_norm") == pytest.approx(49.15, abs=0.1)


def test_the_interpolation_is_held_up_by_a_term_times_zero_then_by_layouts():
    """The discriminator's pass, with the model's for it, takes 48.2 ms; conversions take 37.1."""
    assert top("frame_interpolation", 2) == [
        ("PIT613", "loss.py", 96),
        ("PIT406", "decoder.py", 61),
    ]
    zeroed, layouts = findings("frame_interpolation")[:2]
    assert zeroed.saving == pytest.approx(48.2 / 300.1, abs=0.01)
    assert layouts.saving == pytest.approx(37.1 / 300.1, abs=0.01)
    (encoder,) = of("frame_interpolation", "PIT601")
    assert encoder.message.startswith("`encoder` is called 3 times a step")
    assert encoder.saving < (13.44 + 13.51) / 300.1  # the second and third call, whole
    (workers,) = of("frame_interpolation", "PIT104")
    assert 0.04 < workers.saving < 407 / (12 * 300.1)  # ms to start them over those of an epoch
    (items,) = of("frame_interpolation", "PIT201")
    assert items.saving == pytest.approx(18.98 / 326.1, abs=0.025)


def test_the_diffusion_model_is_held_up_by_elementwise_work_then_by_the_copy_of_its_batch():
    """Sums, products and casts take 322 ms; Python was at the copy in 88 of 785 samples."""
    fusing, copy = findings("lora_diffusion")[:2]
    assert top("lora_diffusion", 2) == [("PIT615", "slow.py", 168), ("PIT203", "slow.py", 109)]
    assert fusing.metrics[0].value == pytest.approx(322, rel=0.03)
    assert 0.1 < fusing.saving < 0.75 * 322 / 920.5  # three in a chain at best become one
    assert copy.saving == pytest.approx(88 / 785, abs=0.01)
    assert copy.saving < 126.2 / 933.5  # as long as the GPU idled after copies in the timeline
    encoders = [each.saving * 920.5 for each in of("lora_diffusion", "PIT608")]
    assert encoders == [pytest.approx(15.3, abs=0.3), pytest.approx(2.0, abs=0.2)]


def test_pictures_written_in_the_step_come_before_those_that_are_read():
    """Of 1406 samples 568 were at the line that writes PNGs, and 392 at the copy of each tile."""
    writes, reads = findings("tiled_vae")[:2]
    assert top("tiled_vae", 2) == [("PIT212", "data.py", 79), ("PIT102", "slow.py", 67)]
    assert 0.33 < writes.saving < 568 / 1406
    assert reads.saving == pytest.approx((214.7 + 240.5) / (1770 + 1834), abs=0.005)
    assert "PIT101" not in {each.code for each in findings("tiled_vae")}  # it would say the same
    (copies,) = of("tiled_vae", "PIT203")
    assert copies.span.line == 74
    assert 0.02 < copies.saving < 79.65 / 1740.9  # all that the GPU idled after copies
    (norms,) = of("tiled_vae", "PIT605")
    assert f"takes {device_ms('tiled_vae', 'native_group_norm'):.0f} ms of 1.80 s" in norms.message
    (adds,) = of("tiled_vae", "PIT209")
    assert (adds.span.line, adds.span.end_line) == (78, 79)
    assert adds.saving == pytest.approx((20 + 24) / 1406, abs=0.01)


def test_the_deblurring_is_held_up_by_its_attention_then_by_launches():
    """The score matrices take 319 ms without the products: 111 of them are the softmax alone."""
    attention, launches, _ = findings("spike_deblur")[:3]
    assert top("spike_deblur", 2) == [
        ("PIT604", "attention.py", 148),
        ("PIT206", "attention.py", 94),
    ]
    softmax_ms = device_ms("spike_deblur", "_softmax", "_softmax_backward_data", line=148)
    assert softmax_ms == pytest.approx(111.5, rel=0.05)
    assert attention.saving == pytest.approx(319 / 1296.7, abs=0.01)
    assert "33406 kernels" in launches.message
    assert launches.saving == pytest.approx(245.7 / 1415.9, abs=0.02)
    (align,) = of("spike_deblur", "PIT601")
    assert align.metrics[1].value == pytest.approx(0.9 * 109.8, abs=1.0)  # nine calls of ten
    assert align.saving < 0.9 * 109.8 / 1296.7
    (check,) = [each for each in of("spike_deblur", "PIT201") if each.span.line == 161]
    assert 55 / 1209 < check.saving < 127.0 / 1415.9  # samples at the line, gaps after it
    assert "PIT605" not in {each.code for each in findings("spike_deblur")}  # its sum is a score's


def test_the_pose_network_is_launch_bound_and_asks_for_weights_that_nobody_reads():
    """Of 219 ms the GPU computes 110. What attention does to its scores has 28.1 of those."""
    launches, attention, gradients = findings("pose_regression")[:3]
    assert top("pose_regression") == [
        ("PIT206", "model.py", 76),
        ("PIT604", "model.py", 76),
        ("PIT603", "slow.py", 138),
    ]
    assert "6608 kernels" in launches.message
    assert 0.35 < launches.saving < 1 - 110.3 / 219.1
    assert attention.saving == pytest.approx(28.1 / 219.1, abs=0.005)
    assert attention.cure.startswith("need_weights=False")
    assert gradients.saving == pytest.approx(8.1 / 219.1, abs=0.001)  # the wasted pass
    copies = of("pose_regression", "PIT203")
    assert [each.span.line for each in copies] == [128, 129, 131]
    assert all(each.saving < 4.0 / 219.1 for each in copies)
    (gathers,) = of("pose_regression", "PIT209")
    assert (gathers.span.line, gathers.saving < 15 / 384) == (128, True)  # no sample at 129 or 131


def test_a_public_interpolation_model_waits_for_its_data_then_has_the_same_causes():
    """LDMVFI's first stage, whose discriminator is multiplied by zero in its first epochs."""
    reads, zeroed, layouts, encoder = findings("ldmvfi")[:4]
    assert top("ldmvfi", 2) == [("PIT102", "ldmvfi.py", 170), ("PIT613", "vqperceptual.py", 152)]
    assert reads.saving == pytest.approx(273 / 578.9, abs=0.01)
    assert zeroed.saving == pytest.approx(47.7 / 578.9, abs=0.003)
    assert (layouts.code, layouts.saving) == ("PIT406", pytest.approx(37.1 / 578.9, abs=0.003))
    assert layouts.span.end_line - layouts.span.line < 10
    assert encoder.message.startswith("`encoder` is called 3 times a step")
    assert encoder.saving < (13.62 + 13.54) / 578.9
    assert not {"PIT101", "PIT206"} & {each.code for each in findings("ldmvfi")}


def test_a_public_restoration_model_leaves_tf32_unused_and_is_launch_bound():
    """VRT: TF32 alone took 297 ms off its step, some of it inside torchvision's own products."""
    recording = recorded("vrt")
    ledger = recording.ledger
    tf32, launches, elementwise = findings("vrt")[:3]
    assert (tf32.code, launches.code, elementwise.code) == ("PIT301", "PIT206", "PIT615")
    assert 250 < tf32.metrics[0].value < 297
    assert "27229 kernels" in launches.message
    assert launches.saving == pytest.approx(255.7 / 1556.9, abs=0.02)
    assert saved_ms("vrt", "PIT615") < 299 - 150  # all of it but what attention does to its scores
    assert [each.span.line for each in of("vrt", "PIT604")] == [672, 667]
    attention_ms = sum(each.metrics[0].value for each in of("vrt", "PIT604"))
    assert attention_ms == pytest.approx(198, abs=3.0)
    assert 170 < saved_ms("vrt", "PIT604") < attention_ms  # some is in calls that batching spares
    (align,) = of("vrt", "PIT601")
    assert align.metrics[1].value == pytest.approx(0.9 * 122.0, abs=1.0)
    assert ledger.total("launch") > 3 * ledger.total("python")


def test_inspection_adds_nothing_to_the_memory_of_the_restoration_model():
    """28.98 GiB before the inspected steps and after them."""
    evidence = recorded("vrt").evidence
    assert max(each.gpu_peak_bytes or 0 for each in evidence.memory) / 2**30 < 29.0
    assert peak_bytes(evidence) / 2**30 == pytest.approx(28.98, abs=0.01)
    assert "PIT502" not in {each.code for each in findings("vrt")}
