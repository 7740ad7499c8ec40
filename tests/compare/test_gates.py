import pytest

from pitstop.compare.gates import parse, result
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError


def compared(verdict, low, high, metric="step"):
    return [Comparison(metric, verdict, (low + high) / 2, low, high, 6)]


@pytest.mark.parametrize(
    ("text", "verdict", "low", "high", "expected"),
    [
        ("step<=+3%", "worse", 1.08, 1.12, "fail"),
        ("step<=+3%", "inconclusive", 1.08, 1.12, "inconclusive"),  # no more than noise
        ("step<=+3%", "worse", 1.01, 1.12, "inconclusive"),
        ("step<=+3%", "worse", 1.01, 1.02, "pass"),
        ("step<=+3%", "inconclusive", 0.90, 1.02, "pass"),
        ("step<=0%", "same", 0.997, 1.008, "pass"),
        ("step<=0%", "worse", 1.015, 1.03, "fail"),
        ("step <= -5 %", "same", 0.997, 1.008, "fail"),  # asked for a gain that is not there
        ("step<=-5%", "better", 0.90, 0.94, "pass"),
        ("step<=-5%", "better", 0.90, 0.97, "inconclusive"),
    ],
)
def test_a_gate_on_what_should_be_low(text, verdict, low, high, expected):
    assert result(parse(text), compared(verdict, low, high)) == expected


@pytest.mark.parametrize(
    ("low", "high", "verdict", "expected"),
    [
        (0.85, 0.92, "worse", "fail"),
        (0.95, 0.99, "worse", "inconclusive"),
        (0.98, 1.20, "inconclusive", "pass"),
    ],
)
def test_a_gate_on_what_should_be_high(low, high, verdict, expected):
    found = compared(verdict, low, high, "samples")
    assert result(parse("samples>=-3%"), found) == expected


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("loss<=0%", 1.0, 1.0, "pass"),
        ("loss<=0%", 1.0001, 1.0001, "fail"),
        ("loss<=0%", 1.0, 1.0001, "inconclusive"),  # runs of one command drift as far
        ("loss<=0.1%", 1.0001, 1.0001, "pass"),
        ("loss<=0.1%", 1.2, 1.2, "fail"),
    ],
)
def test_a_gate_on_the_loss_forgives_nothing(text, low, high, expected):
    assert result(parse(text), compared("same", low, high, "loss")) == expected


def test_a_loss_that_is_no_number_breaks_its_gate():
    assert result(parse("loss<=100%"), [Comparison("loss", "worse")]) == "fail"
    assert result(parse("loss<=100%"), [Comparison("loss", "inconclusive")]) == "inconclusive"


def test_memory_is_the_gpus_where_there_is_one():
    host, gpu = compared("same", 1, 1, "host-memory"), compared("worse", 2, 2, "gpu-memory")
    assert result(parse("memory<=+3%"), host) == "pass"
    assert result(parse("memory<=+3%"), [*host, *gpu]) == "fail"


def test_what_was_not_measured_is_inconclusive():
    assert result(parse("memory<=+3%"), compared("same", 1, 1)) == "inconclusive"


def test_a_metric_of_the_users_own_has_its_direction():
    assert parse("psnr>=-1%", higher=["psnr"]).at_most is False
    assert parse("lpips<=+1%", lower=["lpips"]).at_most is True


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("step<+3%", "'step<=+3%'"),
        ("step<=3", "'step<=+3%'"),
        ("speed<=3%", "no metric 'speed'"),
        ("step>=-3%", "step is better when lower"),
        ("samples<=+3%", "samples is better when higher"),
        ("psnr<=+3%", "psnr is better when higher"),
    ],
)
def test_a_gate_that_would_mean_nothing_is_refused(text, hint):
    with pytest.raises(PitstopError, match=hint.replace("+", r"\+")):
        parse(text, higher=["psnr"])
