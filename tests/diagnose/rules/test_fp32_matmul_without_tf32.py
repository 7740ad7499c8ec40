import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.evidence import Settings
from pitstop.core.ledger import Row
from pitstop.core.machine import Limits, Machine
from pitstop.diagnose.rules.fp32_matmul_without_tf32 import fp32_matmul_without_tf32

FLOAT32 = "float32[64,64]@cuda float32[64,64]@cuda"


def multiplies(
    ms=20.0, name="mm", shapes=FLOAT32, limits=(), device="cuda", flops=10**12, **settings
):
    found = operation(name, line(9, "model.py"), shapes, flops=flops, device_micros=1e3 * ms)
    set_to = Settings(device=device, **{"tf32_cudnn": True} | settings)
    rows = (
        Row("precision", ms / 2, name, line(9, "model.py")),
        Row("above", ms / 2, name, line(9, "model.py")),
    )
    machine = Machine(limits=limits)
    return recording(*rows, device=device, machine=machine, settings=set_to, operations=(found,))


def test_names_the_dearest_product_and_what_is_left():
    (finding,) = fp32_matmul_without_tf32(multiplies(40.0))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT301", 9, 0.2)
    assert finding.changes == ("tf32",)


def test_saves_no_more_than_the_measured_rates_allow():
    rates = Limits("cuda:0", fp32_flops=50e12, tf32_flops=100e12)  # 20 ms become 10
    (finding,) = fp32_matmul_without_tf32(multiplies(limits=(rates,)))
    assert finding.saving == pytest.approx(0.1)


RATES = Limits("cuda:0", copy_bytes_per_s=1e12, fp32_flops=50e12, tf32_flops=400e12)


def test_a_product_that_computes_for_long_may_come_down_to_its_floor():
    """Its FLOPs need 20 of 60 ms; in TF32 they need 2.5, and other kernels compute it."""
    (finding,) = fp32_matmul_without_tf32(multiplies(60.0, limits=(RATES,)))
    assert finding.saving == pytest.approx(0.575)


def test_a_product_that_hardly_computes_gains_what_its_flops_took():
    (finding,) = fp32_matmul_without_tf32(multiplies(60.0, limits=(RATES,), flops=5 * 10**11))
    assert finding.saving == pytest.approx(0.0875)


@pytest.mark.parametrize(
    "run",
    [
        multiplies(tf32_matmul=True),
        multiplies(3.8),
        multiplies(shapes="bfloat16[64,64]@cuda bfloat16[64,64]@cuda"),
        multiplies(name="convolution"),  # allowed unasked
        multiplies(device="cpu"),
        multiplies(limits=(Limits("cuda:0", fp32_flops=10e12, tf32_flops=10e12),)),  # no units
        without_ledger(),
        recording(device="cuda"),
    ],
)
def test_quiet_where_tf32_does_nothing(run):
    assert fp32_matmul_without_tf32(run) == []


def test_convolutions_count_where_they_are_forbidden_it():
    assert len(fp32_matmul_without_tf32(multiplies(name="convolution", tf32_cudnn=False))) == 1
