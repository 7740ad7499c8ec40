"""Runs that went well give no finding; each kind of trouble gives one, and names its step."""

import math
import random

import pytest

from pitstop.logs.examine import examine
from pitstop.logs.history import Logs, Run, Series

STEPS = 400


def healthy(**changed):
    """A run with noise: a loss that falls, a norm, a cosine, a scale, times, validations."""
    chance = random.Random(3)
    series = {
        "train/loss": [2 / (1 + n / 40) * (1 + chance.gauss(0, 0.1)) for n in range(STEPS)],
        "train/grad_norm": [1 + abs(chance.gauss(0, 0.4)) for _ in range(STEPS)],
        "lr": [1e-3 * min(1, (n + 1) / 20) * (1 + math.cos(math.pi * n / STEPS)) / 2
               for n in range(STEPS)],
        "amp/scale": [65536.0] * STEPS,
        "epoch_time": [30.0] * STEPS,
    }  # fmt: skip
    series |= changed.pop("own", {})
    known = [
        Series(
            tag,
            tuple(range(len(values))),
            tuple(values),
            tuple(1.8e9 + n for n in range(len(values))),
        )
        for tag, values in series.items()
    ]
    places = tuple(changed.pop("places", range(20, STEPS, 20)))
    val = changed.pop("val", [2.2 / (1 + place / 60) for place in places])
    known.append(Series(changed.pop("val_tag", "val/loss"), places, tuple(val)))
    return Run("run", tuple(known))


def changed(tag, change):
    """The healthy run with one tag changed: ``change`` gets the step and the value."""
    values = next(series.values for series in healthy().series if series.tag == tag)
    return healthy(own={tag: [change(step, value) for step, value in enumerate(values)]})


def found(run):
    return {each.code: each for each in examine(Logs((run,))).findings}


def test_a_healthy_run_has_nothing_to_tell():
    report = examine(Logs((healthy(),)))
    assert report.findings == ()
    assert report.verdict.startswith("Nothing went wrong in 1 run")


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_gives_no_finding(seed):
    chance = random.Random(seed)
    heavy = [abs(chance.gauss(0, 1)) * math.exp(chance.gauss(0, 0.5)) for _ in range(STEPS)]
    assert found(healthy(own={"train/loss": heavy})) == {}


NAN = math.nan
CASES = {
    "loss comes down and rises for good": (
        changed("train/loss", lambda step, value: value + max(0, step - 200) / 40),
        "PIT717", "train/loss is about 0.3",
    ),
    "a metric falls": (
        healthy(val=[20 + n / 5 if n < 12 else 22.4 - (n - 12) / 2 for n in range(40)],
                places=range(0, 400, 10), val_tag="val/psnr"),
        "PIT715", "val/psnr is about 21.9 at step 100",
    ),
    "NaN to the end": (
        changed("train/loss", lambda step, value: value if step < 30 else NAN),
        "PIT701", "train/loss is NaN from step 30 of 399, to the end. Nothing",
    ),
    "NaN once": (
        changed("train/loss", lambda step, value: NAN if step == 77 else value),
        "PIT701", "train/loss is NaN from step 77 of 399 (1 of 400 values)",
    ),
    "Inf": (
        changed("train/loss", lambda step, value: math.inf if step > 200 else value),
        "PIT701", "train/loss is infinite from step 201",
    ),
    "validation only": (
        healthy(val=[1.0] * 5 + [NAN] * 14), "PIT701", "val/loss is NaN from step 120",
    ),
    "norm jumps": (
        changed("train/grad_norm", lambda step, value: 900 if step == 250 else value),
        "PIT703", "train/grad_norm jumps from about 1.24 to 900 at step 250",
    ),
    "norm grows without end": (
        changed("train/grad_norm", lambda step, value: value * math.exp(step / 60)),
        "PIT703", "train/grad_norm grows without end",
    ),
    "stepped per micro-batch": (
        changed("lr", lambda step, _: 1e-3 * max(0.0, 1 - step / 100)),
        "PIT705", "lr is at its floor from step 100 of 399 and stays there",
    ),
    "cosine that comes back": (
        changed("lr", lambda step, _: 1e-3 * (1 + math.cos(math.pi * step / 100)) / 2),
        "PIT705", "and rises again",
    ),
    "rate zero throughout": (
        changed("lr", lambda *_: 0.0), "PIT712", "lr is 0 throughout",
    ),
    "rate zero at first": (
        changed("lr", lambda step, value: 0.0 if step < 60 else value), "PIT712", "until step 60",
    ),
    "loss frozen": (
        changed("train/loss", lambda step, value: value if step < 300 else 0.0),
        "PIT710", "train/loss is 0 in all 100 entries from step 300 on",
    ),
    "spikes": (
        changed("train/loss", lambda step, value: 20 * value if step in {100, 200} else value),
        "PIT711", "train/loss spikes 2 times",
    ),
    "falling scale": (
        changed("amp/scale", lambda step, _: 2.0 ** (16 - step // 20)), "PIT702", "amp/scale falls",
    ),
    "validation rises": (
        healthy(val=[1.0 + abs(n - 6) / 6 for n in range(19)]),
        "PIT715", "val/loss is lowest (1) at step 140",
    ),
    "metric that never changes": (
        healthy(own={"val/psnr": [11.3] * STEPS}), "PIT716", "val/psnr is 11.3 in all 400 entries",
    ),
    "not warmed up": (
        healthy(own={
            "lr": [1e-2] * STEPS,
            "train/loss": [1.0, 2.0, 9.0, 8.0, 7.0] + [3.0 + n % 3 / 9 for n in range(STEPS - 5)],
        }),
        "PIT713", "rises from 1 to 9 by step 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("run", "code", "words"), CASES.values(), ids=CASES)
def test_one_trouble_is_found_and_its_step_named(run, code, words):
    findings = found(run)
    assert set(findings) == {code}
    assert words in findings[code].message
    assert findings[code].cure
    assert findings[code].curves


def test_what_rose_before_a_nan_is_named():
    def loss(step, value):
        return value if step < 200 else NAN

    def norm(step):
        return 1.0 + step % 3 / 10 if step < 190 else 1.5 ** (step - 188) if step < 200 else NAN

    run = changed("train/loss", loss)
    own = {series.tag: list(series.values) for series in run.series if series.tag != "val/loss"}
    own["train/grad_norm"] = [norm(step) for step in range(STEPS)]
    finding = found(healthy(own=own))["PIT701"]
    assert "as is train/grad_norm" in finding.message
    assert "Before it, train/grad_norm rose from about 1.1 to 86.5" in finding.message
    assert "clip" in finding.cure
    assert [curve.name for curve in finding.curves] == ["train/loss", "train/grad_norm"]
    assert finding.mark == 200


@pytest.mark.parametrize(
    "own",
    [
        {"val/ap_small": [0.3 if step % 20 == 0 else NAN for step in range(STEPS)]},
        {"lr": [1e-3 * 0.97 ** (step // 2) for step in range(STEPS)]},
        {"lr": [1e-3 * 0.1 ** (step // 130) for step in range(STEPS)]},
        {"lr": [1e-3] * STEPS},
        {"lr": [1e-3 * (1 + math.cos(math.pi * (step % 100) / 100)) / 2 for step in range(STEPS)]},
        {"loss_scale": [1.0] * STEPS, "data_time": [0.1 + step for step in range(STEPS)]},
        {"train/loss": [round(2 * math.exp(-step / 50) + 0.3, 2) for step in range(STEPS)]},
        {"train/loss": [1 + abs(200 - step) / 40 for step in range(STEPS)], "d_loss": [0.5] * 3},
        {"train/loss": [0.5 + step / 4000 for step in range(STEPS)]},
        {"val/acc": [0.9 + (step % 7) / 100 for step in range(STEPS)]},
    ],
    ids=[
        "sparse",
        "exponential",
        "steps",
        "constant",
        "restarts",
        "others",
        "few digits",
        "rivals",
        "a slow rise",
        "a noisy metric",
    ],
)
def test_what_is_usual_gives_no_finding(own):
    assert found(healthy(own=own)) == {}


def test_a_metric_of_nothing_is_a_warning_only():
    findings = found(healthy(own={"val/ap_small": [NAN] * STEPS}))
    assert findings["PIT701"].severity == "warning"


def test_what_always_moves_is_not_blamed_for_a_nan():
    def wild(step):
        return 1.0 + ((step * 7) % 5) ** 2

    loss = [1.0 if step < 200 else NAN for step in range(STEPS)]
    own = {"train/loss": loss, "train/grad_norm": [wild(step) for step in range(STEPS)]}
    assert "Nothing in the log rose" in found(healthy(own=own))["PIT701"].message


def test_a_scaler_that_tries_is_no_trouble():
    bad = {3, 4, 200}
    own = {
        "train/grad_norm": [math.inf if step in bad else 1.0 + step % 3 for step in range(STEPS)],
        "amp/scale": [65536.0 / 2 ** sum(step > each for each in bad) for step in range(STEPS)],
    }
    assert found(healthy(own=own)) == {}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (lambda step: 1 if step < 240 else 3, "to the end"),
        (lambda step: 3 if 120 <= step < 240 else 1, "to about step 247"),
    ],
)
def test_a_slower_stretch_is_told_with_its_time_of_day(seconds, words):
    times, now = [], 1.8e9
    for step in range(STEPS):
        now += seconds(step)
        times.append(now)
    run = healthy()
    loss = Series("train/loss", run.series[0].steps, run.series[0].values, tuple(times))
    finding = found(Run("run", (loss,)))["PIT714"]
    assert "steps per second falls from 1 to 0.333 (67 %)" in finding.message
    assert "UTC" in finding.message
    assert words in finding.message


def test_pauses_for_validation_are_no_slower_stretch():
    times = tuple(1.8e9 + step + 60 * (step // 20) for step in range(STEPS))
    loss = healthy().series[0]
    assert found(Run("run", (Series(loss.tag, loss.steps, loss.values, times),))) == {}


def test_several_runs_are_told_apart():
    bad = CASES["NaN once"][0]
    report = examine(Logs((Run("a", healthy().series), Run("b", bad.series))))
    assert report.verdict == "1 of 2 runs went wrong: 1 finding."
    assert [finding.item for finding in report.findings] == ["b"]
    assert [row[0] for row in report.tables[0].rows] == ["a", "b"]
