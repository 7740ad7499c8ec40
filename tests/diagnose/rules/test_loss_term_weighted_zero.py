import pytest

from diagnose.builders import call, line, recording, without_ledger, work
from pitstop.core.evidence import Zeroed
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.loss_term_weighted_zero import loss_term_weighted_zero

CALLS = call("Generator", 80), call("discriminator", 91), call("discriminator.0", 3, 1)


def run(zeroed_us=30.0, *positions, unused_ms=30.0):
    operations = work(zeroed_us, 2), work(100 - zeroed_us, 0)
    zeroed = (Zeroed(line(93), positions or (1, 2)),)
    return recording(Row("unused", unused_ms), calls=CALLS, operations=operations, zeroed=zeroed)


def test_names_the_term_and_the_calls_that_serve_only_it():
    (finding,) = loss_term_weighted_zero(run())
    assert (finding.code, finding.span.line, finding.span.end_line) == ("PIT613", 91, 93)
    assert finding.saving == pytest.approx(0.30)
    assert finding.message == (
        "The term at train.py:93 is multiplied by zero; `discriminator` computes it for nothing "
        "in 30.0 ms of 100 ms, its backward pass included."
    )


def test_promises_no_more_than_the_ledger_has():
    assert loss_term_weighted_zero(run(unused_ms=4.0))[0].saving == pytest.approx(0.04)


def test_little_is_a_note():
    assert [loss_term_weighted_zero(run(us))[0].severity for us in (0.9, 1.1)] == [
        "note",
        "warning",
    ]


@pytest.mark.parametrize(
    "run",
    [
        run(0.19),
        run(30.0, 7),  # a call that is not there
        recording(zeroed=(Zeroed(line(93)),)),
        recording(),
        without_ledger(calls=CALLS),
    ],
)
def test_quiet(run):
    assert loss_term_weighted_zero(run) == []
