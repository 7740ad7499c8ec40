from diagnose.builders import line, recording, without_ledger
from pitstop.core.evidence import Break, Compiled
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.graph_breaks import graph_breaks

COMPILED = (Compiled(line(8, "model.py", "forward")),)
READS = Break("Tensor.item() was called.\nHint: ...", 3, line(12, "model.py"))


def test_names_the_line_the_reason_and_what_it_costs():
    row = Row("python", 3, "", line(12, "model.py"))
    (finding,) = graph_breaks(recording(row, compiled=COMPILED, breaks=(READS,)))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT404", 12, 0.03)
    assert finding.message == ("The compiled graph ends here, 3 times: Tensor.item() was called.")


def test_what_a_break_costs_is_unknown_where_the_ledger_does_not_know_its_line():
    (finding,) = graph_breaks(
        recording(Row("launch", 9), device="cuda", compiled=COMPILED, breaks=(READS,))
    )
    assert finding.saving is None


def test_shows_the_most_frequent_ones():
    breaks = tuple(Break("print", number, line(number, "model.py")) for number in range(1, 9))
    found = graph_breaks(recording(Row("python", 9), compiled=COMPILED, breaks=breaks))
    assert [each.span.line for each in found] == [8, 7, 6, 5, 4]


def test_a_break_of_no_known_line_is_not_shown():
    nowhere = Break("print", 9)
    (finding,) = graph_breaks(
        recording(Row("python", 2), compiled=COMPILED, breaks=(nowhere, READS))
    )
    assert finding.span.line == 12


def test_quiet_where_breaks_cost_nothing_or_nothing_was_compiled():
    cheap = recording(Row("python", 1.9), compiled=COMPILED, breaks=(READS,))
    assert graph_breaks(cheap) == []
    assert graph_breaks(recording(Row("python", 9), breaks=(READS,))) == []
    assert graph_breaks(recording(Row("python", 9), compiled=COMPILED)) == []
    assert graph_breaks(without_ledger(compiled=COMPILED, breaks=(READS,))) == []
