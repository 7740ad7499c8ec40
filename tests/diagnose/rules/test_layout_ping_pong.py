import pytest

from diagnose.builders import line, recording, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.layout_ping_pong import layout_ping_pong


def layout(ms, at, what="convolution"):
    return Row("layout", ms, what, line(at, "decoder.py"))


def test_is_one_finding_with_its_dearest_lines():
    rows = layout(2, 50), layout(3, 61), layout(1, 61, "convolution_backward")
    (finding,) = layout_ping_pong(recording(*rows, device="cuda"))
    assert (finding.code, finding.saving) == ("PIT406", pytest.approx(0.06))
    assert (finding.span.line, finding.span.end_line) == (50, 61)
    assert finding.message == (
        "Converting layouts takes 6.00 ms of 100 ms, most of it at decoder.py:61, 50."
    )


def test_many_small_ones_count_together():
    rows = [layout(0.3 + at / 1e4, at) for at in range(1, 11)]
    (finding,) = layout_ping_pong(recording(*rows, device="cuda"))
    assert finding.message.endswith("most of it at decoder.py:10, 9, 8, 7.")
    assert finding.saving == pytest.approx(0.03, abs=1e-3)


def test_quiet_where_little_is_converted():
    assert layout_ping_pong(recording(layout(1.9, 50), device="cuda")) == []
    assert layout_ping_pong(recording(device="cuda")) == []
    assert layout_ping_pong(without_ledger()) == []
