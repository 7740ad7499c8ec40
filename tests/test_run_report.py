"""What a run says of what the source gives rise to suspect."""

import pytest

from diagnose.builders import loader, recording
from pitstop.core.finding import Finding, Span
from pitstop.core.ledger import Row
from pitstop.core.merge import Merged
from pitstop.run_report import _on_the_source, _seen


@pytest.mark.parametrize(
    ("files", "scanned"),
    [(("a.py", "b.py"), "/p/a.py /p/b.py"), (("a.py", "b.py", "c/d.py", "c/e.py"), "/p")],
)
def test_the_command_that_is_offered_shows_all_that_is_open(files, scanned):
    spans = [Span(f"/p/{each}", 3, 1, 3, 9) for each in files]
    found = [Finding(code="PIT104", span=each, confidence="suspected") for each in spans]
    (line,) = _on_the_source(Merged(tuple(found)))
    assert line.endswith(f"not settled here: {len(files)}; pitstop scan {scanned}")


@pytest.mark.parametrize(
    ("workers", "starts", "known"), [(0, 1, True), (2, 1, False), (2, 2, True)]
)
def test_one_epoch_does_not_tell_what_it_costs_to_begin_another(workers, starts, known):
    fed = loader(workers=workers, starts=starts)
    seen = _seen(recording(Row("floor", 100), loaders=(fed,)))
    assert ((fed.made.path, fed.made.line) in seen) is known
