import pytest

from diagnose.builders import line, without_ledger
from pitstop.core.evidence import Compiled
from pitstop.diagnose.rules.recompiles import recompiles

FORWARD = line(30, "model.py", "forward")


def compiled(*again, where=FORWARD, **more):
    return [Compiled(where, 2.0, number, **more) for number in again]


def test_counts_the_versions_after_the_first_with_reason_and_time():
    found = (*compiled(0), *compiled(1), *compiled(2, reason="size mismatch at index 0.\nmore"))
    (finding,) = recompiles(without_ledger(compiled=found))
    assert (finding.code, finding.span.line, finding.per) == ("PIT403", 30, "start")
    assert finding.message == (
        "`forward` was compiled again 2 times, 4.00 s in all, the last time because size mismatch "
        "at index 0."
    )


def test_says_when_it_was_given_up():
    found = (*compiled(0, 1), *compiled(2, failure="recompile limit"))
    (finding,) = recompiles(without_ledger(compiled=found))
    assert finding.message.endswith("; in the end it was given up: recompile limit.")


@pytest.mark.parametrize(
    "found",
    [
        (),
        compiled(0),
        compiled(0, 1),  # how it learns that a size varies
        [*compiled(0, 1), *compiled(0, 1, where=line(50, "model.py"))],  # two functions
    ],
)
def test_quiet_where_that_is_how_it_works(found):
    assert recompiles(without_ledger(compiled=tuple(found))) == []
