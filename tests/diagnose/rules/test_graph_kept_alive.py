import pytest

from diagnose.builders import line, recording
from pitstop.core.evidence import Kept
from pitstop.diagnose.rules.graph_kept_alive import graph_kept_alive

LOSSES = Kept(line(20), 40_000, graph=True, holder="losses", kept_at=line(22))


def run(*kept):
    return recording(kept=kept)


def test_names_the_line_that_keeps_it_and_what():
    (finding,) = graph_kept_alive(run(LOSSES))
    assert (finding.code, finding.span.line) == ("PIT501", 22)
    assert finding.saved_bytes == 400_000
    assert finding.message == (
        "`losses` keeps the graph of every step, 39.1 KiB each: memory grows until it is let go."
    )


def test_names_the_line_that_made_it_where_nobody_knows_who_keeps_it():
    (finding,) = graph_kept_alive(run(Kept(line(20), 0, graph=True)))
    assert (finding.span.line, finding.saved_bytes) == (20, None)
    assert finding.message.startswith("Something keeps the graph of every step:")


def test_one_finding_for_all_that_one_line_keeps():
    assert len(graph_kept_alive(run(LOSSES, Kept(line(21), 8, True, "losses", line(22))))) == 1


@pytest.mark.parametrize("run", [run(), run(Kept(line(20), 4000, holder="scores"))])
def test_quiet_without_a_graph(run):
    assert graph_kept_alive(run) == []
