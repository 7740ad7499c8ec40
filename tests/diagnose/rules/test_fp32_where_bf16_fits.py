import pytest

from diagnose.builders import line, operation, recording, without_ledger
from pitstop.core.evidence import Settings
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.fp32_where_bf16_fits import fp32_where_bf16_fits


def multiplies(ms=20.0, kind="float32", device="cuda", autocast=""):
    found = operation("mm", line(9, "model.py"), f"{kind}[64,64]@{device}")
    rows = Row("precision", ms, "mm", line(9, "model.py"))
    settings = Settings(device=device, autocast=autocast)
    return recording(rows, device=device, settings=settings, operations=(found,))


def test_names_the_dearest_product_and_what_is_left():
    (finding,) = fp32_where_bf16_fits(multiplies())
    assert (finding.code, finding.span.line, finding.saving) == ("PIT302", 9, 0.2)
    assert (finding.severity, finding.changes) == ("warning", ("bf16",))


@pytest.mark.parametrize(
    "run",
    [
        multiplies(4.9),
        multiplies(kind="bfloat16"),
        multiplies(autocast="float16"),
        without_ledger(),
        recording(device="cuda"),
    ],
)
def test_quiet_where_it_is_there_or_saves_little(run):
    assert fp32_where_bf16_fits(run) == []


def test_quiet_on_a_cpu():
    assert fp32_where_bf16_fits(multiplies(50.0, device="cpu")) == []
