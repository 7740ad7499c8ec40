from diagnose.builders import line, recording, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.layout_ping_pong import layout_ping_pong


def layout(ms, at, what="convolution"):
    return Row("layout", ms, what, line(at, "decoder.py"))


def test_names_the_dearest_lines_and_the_whole():
    rows = layout(2, 50), layout(3, 61), layout(1, 61, "convolution_backward")
    first, second = layout_ping_pong(recording(*rows, device="cuda"))
    assert (first.code, first.span.line, first.saving) == ("PIT406", 61, 0.04)
    assert (second.span.line, second.saving) == (50, 0.02)
    assert first.message == (
        "Converting layouts here takes 4.00 ms of 100 ms, and 6.0 % of the step in all."
    )


def test_many_small_ones_are_named_by_the_dearest():
    rows = [layout(0.3 + at / 1e4, at) for at in range(1, 11)]
    (finding,) = layout_ping_pong(recording(*rows, device="cuda"))
    assert finding.span.line == 10


def test_the_rest_goes_away_with_the_same_change():
    rows = [layout(at / 10, at) for at in range(4, 12)]
    found = layout_ping_pong(recording(*rows, device="cuda"))
    assert [each.span.line for each in found] == [11, 10, 9, 8, 7]
    rows = [layout(2.0, 50), layout(0.5, 51), layout(0.4, 52)]
    found = layout_ping_pong(recording(*rows, device="cuda"))
    assert [each.span.line for each in found] == [50, 51]


def test_quiet_where_little_is_converted():
    assert layout_ping_pong(recording(layout(1.9, 50), device="cuda")) == []
    assert layout_ping_pong(recording(device="cuda")) == []
    assert layout_ping_pong(without_ledger()) == []
