"""What is read off runs and recordings, and how each quantity is judged."""

from dataclasses import replace
from pathlib import Path

import pytest

from pitstop.compare.differences import differences
from pitstop.compare.gates import parse, result
from pitstop.compare.judge import judge_recordings, judge_runs
from pitstop.compare.quantities import (
    LOWER_IS_BETTER,
    NAMES,
    Sample,
    built_in,
    gpu_peak_bytes,
    metric_name,
    own_metric,
    sample,
    step_ms,
)
from pitstop.compare.record import Recording
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Line, Loader, Memory, ModuleCall, Step
from pitstop.profile.read.runs import About, Run

UNKNOWN = About()
WOBBLE = (0.0, 0.2, -0.1, 0.1, -0.2, 0.0)  # of six runs, in milliseconds


def evidence(step=100.0, wait=1.0, host=1000, loss=1.0, steps=20):
    each = Step(step, data_wait_ms=wait, loss=loss)
    memory = tuple(Memory(at, host_bytes=share) for at, share in enumerate((1, host, host // 2)))
    return Evidence(step_kind="optimizer", steps=(each,) * steps, memory=memory)


def six(batch=None, lines=(), **options):
    base = options.pop("step", 100.0)
    return [Sample(evidence(base + add, **options), batch, lines) for add in WOBBLE]


def by_name(comparisons):
    return {each.metric: each for each in comparisons}


def test_every_metric_has_its_direction():
    metrics = [each.quality for each in built_in(())]
    assert sorted([*(each.name for each in metrics), "loss"]) == sorted(NAMES)
    for each in metrics:
        assert each.higher_is_better == (each.name not in LOWER_IS_BETTER)


def test_a_slower_step_is_worse_by_every_clock():
    found = by_name(judge_runs(six(), six(step=110.0)))
    verdicts = {name: each.verdict for name, each in found.items()}
    assert {verdicts[name] for name in ("step", "p50", "p95", "samples")} == {"worse"}
    assert {verdicts[name] for name in ("wait", "host-memory", "loss")} == {"same"}
    assert "gpu-memory" not in found
    assert found["step"].ratio == pytest.approx(1.1, rel=1e-2)
    assert found["samples"].unit == "steps/s"


def test_twice_the_batch_is_fewer_steps_but_more_samples():
    found = by_name(judge_runs(six(batch=4), six(batch=8, step=150.0)))
    assert (found["step"].verdict, found["samples"].verdict) == ("worse", "better")
    assert found["samples"].unit == "samples/s"
    assert found["samples"].after == pytest.approx(8 / 0.150)


def test_a_wait_is_judged_by_its_weight_in_the_step():
    doubled = by_name(judge_runs(six(wait=0.1), six(wait=0.2)))["wait"]
    assert (doubled.verdict, doubled.before, doubled.after) == ("same", 0.1, 0.2)
    grown = by_name(judge_runs(six(wait=0.1), six(wait=20.1, step=120.0)))["wait"]
    assert (grown.verdict, grown.ratio) == ("worse", pytest.approx(1.2, rel=1e-2))


def test_memory_is_compared_at_its_peak():
    found = by_name(judge_runs(six(host=1000), six(host=1500)))["host-memory"]
    assert (found.verdict, found.before, found.after) == ("worse", 1000, 1500)


def test_a_peak_of_the_gpu_is_that_after_the_warm_up():
    """A VAE is tiled from its second call on, and what tiles it counts anew."""
    steps = tuple(Step(1000.0, ended_s=float(end)) for end in range(1, 7))
    memory = tuple(
        Memory(at, gpu_peak_bytes=peak) for at, peak in ((1.0, 900), (3.0, 300), (5.0, 310))
    )
    seen = Evidence(steps=steps, warmup_steps=3, memory=memory)
    assert gpu_peak_bytes(seen) == 310
    assert gpu_peak_bytes(replace(seen, memory=memory[:2])) == 900  # too short to tell
    assert gpu_peak_bytes(replace(seen, memory=())) is None
    (found,) = (each for each in built_in(()) if each.quality.name == "gpu-memory")
    assert found.read(Sample(seen)) == 310


def test_a_run_too_short_to_see_its_peak_has_none():
    short = [replace(each, evidence=replace(each.evidence, memory=())) for each in six()]
    assert "host-memory" not in by_name(judge_runs(short, short))


def test_a_step_time_forgives_hiccups_but_not_what_comes_every_fourth_step():
    calm = [Step(10.0)] * 40
    hiccup = Evidence(steps=(*calm, Step(900.0)))
    bursts = Evidence(steps=(Step(10.0), Step(10.0), Step(10.0), Step(50.0)) * 10)
    assert step_ms(hiccup) == pytest.approx(10.0)
    assert step_ms(bursts) > 15


def test_the_last_match_is_the_metric():
    psnr = own_metric(r"psnr=(\S+)", lower_is_better=False)
    assert psnr.quality.name == "psnr"
    lines = ("psnr=20.1, lpips=1", "psnr=31.5, lpips=2 psnr=32.5%")
    assert psnr.read(Sample(Evidence(), lines=lines)) == 32.5


@pytest.mark.parametrize("line", ["nothing", "psnr=nan", "psnr=high"])
def test_what_is_no_number_is_said(line):
    own = [own_metric(r"psnr=(\S+)", lower_is_better=False)]
    found = by_name(judge_runs(six(lines=("psnr=30",)), six(lines=(line,)), own))["psnr"]
    assert (found.verdict, found.reason) == ("inconclusive", "no number in 6 runs of 12")


@pytest.mark.parametrize("pattern", ["psnr=(", r"psnr=\S+", r"(\w+)=(\S+)"])
def test_a_pattern_needs_one_pair_of_parentheses(pattern):
    with pytest.raises(PitstopError, match="--metric"):
        own_metric(pattern, lower_is_better=False)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"psnr=(\S+)", "psnr"),
        (r"\[val\] LPIPS: (\S+)", "val"),
        ("(.+)", "metric"),
        (r"loss: (\S+)", "printed-loss"),
    ],
)
def test_a_metric_is_called_by_its_first_word(pattern, name):
    assert metric_name(pattern) == name


def recorded(times):
    return Sample(Evidence(steps=tuple(Step(each) for each in times)))


def test_one_recording_each_is_judged_by_blocks():
    times = [100.0 + place % 5 for place in range(60)]
    found = by_name(judge_recordings(recorded(times), recorded([1.1 * each for each in times])))
    assert (found["step"].verdict, found["step"].pairs) == ("worse", 12)


def test_one_recording_each_proves_no_small_difference():
    times = [100.0 + place % 5 for place in range(60)]
    found = by_name(judge_recordings(recorded(times), recorded([1.04 * each for each in times])))
    assert found["step"].verdict == "inconclusive"


@pytest.mark.parametrize(
    ("ratio", "gate", "expected"),
    [
        (1.015, "step<=+3%", "inconclusive"),
        (1.0, "step<=+3%", "inconclusive"),
        (1.0, "step<=+5%", "pass"),
        (1.0, "samples>=-3%", "inconclusive"),
        (0.9, "step<=+3%", "pass"),
        (1.2, "step<=+3%", "fail"),
        (1.07, "step<=+3%", "inconclusive"),
        (0.97, "step<=-2%", "inconclusive"),
        (0.9, "step<=-4%", "pass"),
    ],
)
def test_a_gate_on_recordings_knows_how_far_runs_differ(ratio, gate, expected):
    found = judge_recordings(recorded([100.0] * 60), recorded([100.0 * ratio] * 60))
    assert result(parse(gate), found) == expected


def test_recordings_are_never_the_same():
    step = by_name(judge_recordings(recorded([100.0] * 60), recorded([100.0] * 60)))["step"]
    assert (step.verdict, step.low, step.high) == ("inconclusive", 1 / 1.05, 1.05)


def test_a_slow_stretch_of_a_recording_is_noise_of_its_blocks():
    slow = [100.0] * 30 + [130.0] * 30
    found = by_name(judge_recordings(recorded([100.0] * 60), recorded(slow)))
    assert found["step"].verdict == "inconclusive"


def test_too_few_steps_say_so():
    found = by_name(judge_recordings(recorded([100.0] * 8), recorded([200.0] * 8)))
    assert (found["step"].verdict, found["step"].low) == ("inconclusive", None)
    assert found["step"].reason == "6 blocks are the least that can tell"


def recording(command="train.py", about=UNKNOWN, shapes="f32[4,3]", batch=4, **options):
    loader = Loader("Clips", 0, batch_size=batch, batches=40, trains=True)
    call = ModuleCall("", "Net", Line(), -1, shapes)
    seen = replace(evidence(), loaders=(loader,), calls=(call,), **options)
    return Recording(Path(), Run((command,), "", 3, exit_code=0), about, (seen,))


def test_samples_of_a_step_count_every_batch_it_takes():
    assert sample(recording()).batch == 8  # 40 batches of 4 in 20 steps


def test_equal_runs_differ_in_nothing():
    assert list(differences(recording(), recording())) == ["A and B are the same command: train.py"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"about": About(torch="2.11.0")}, "different torch version: A 2.13.0, B 2.11.0"),
        ({"about": About(torch="2.13.0", gpu="H200")}, "different GPU: A not known, B H200"),
        ({"shapes": "f32[8,3]"}, "different shape of the model's inputs: A f32[4,3], B f32[8,3]"),
        ({"batch": 8}, "different number of samples in a step: A 8, B 16"),
        ({"step_kind": "loader"}, "different event that ends a step: A optimizer, B loader"),
        ({"command": "other.py"}, "B: other.py"),
    ],
)
def test_what_is_not_equal_is_said(other, said):
    first = recording(about=About(torch="2.13.0"))
    assert said in list(differences(first, recording(**{"about": first.about, **other})))
