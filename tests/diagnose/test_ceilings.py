import pytest

from pitstop.core.evidence import Evidence, Settings
from pitstop.core.machine import Limits, Machine
from pitstop.diagnose.ledger.ceilings import by_the_ceilings


@pytest.mark.parametrize(
    ("device", "bf16", "native"),
    [("cpu", 26e9, False), ("cpu", 400e9, True), ("cpu", None, True), ("cuda", 26e9, True)],
)
def test_a_cpu_that_emulates_bfloat16_is_told_by_its_measured_ceilings(device, bf16, native):
    machine = Machine(limits=(Limits("cpu", fp32_flops=126e9, bf16_flops=bf16),))
    evidence = by_the_ceilings(Evidence(settings=Settings(device)), machine)
    assert evidence.settings.bfloat16 == native
    assert by_the_ceilings(Evidence(), machine) == Evidence()
