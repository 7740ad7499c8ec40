from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.core.merge import merge

FIX = Fix("Keep the tensor", (Edit(1, 2, ""),))


def suspicion(line=10, end=12, code="PIT201", path="/a/train.py"):
    return Finding("suspicion", Span(path, line, 1, end, 5), code=code, fix=FIX)


def measured(line=11, code="PIT201", path="/a/train.py"):
    span = Span(path, line, 1, line, 1)
    return Finding("cost", span, code=code, confidence="measured", saving=0.2)


def test_a_run_inside_the_lines_confirms_and_takes_the_fix():
    (finding,) = merge([suspicion()], [measured()], {}).findings
    assert (finding.message, finding.confidence, finding.fix) == ("cost", "measured", FIX)


def test_another_code_line_or_file_confirms_nothing():
    for other in (measured(code="PIT203"), measured(line=13), measured(path="/b/train.py")):
        merged = merge([suspicion()], [other], {})
        assert [each.confidence for each in merged.findings] == ["measured", "suspected"]
        assert merged.findings[0].fix is None


def test_lines_that_ran_and_cost_nothing_clear_the_suspicion():
    merged = merge([suspicion()], [], {("/a/train.py", 11): 0.004, ("/a/train.py", 12): 0.005})
    assert merged.findings == ()
    assert len(merged.cleared) == 1


def test_lines_that_ran_and_cost_something_stay_suspected():
    merged = merge([suspicion()], [], {("/a/train.py", 11): 0.006, ("/a/train.py", 12): 0.005})
    assert [each.confidence for each in merged.findings] == ["suspected"]
    assert merged.cleared == ()


def test_lines_that_nobody_saw_stay_suspected():
    merged = merge([suspicion()], [], {("/a/train.py", 13): 0.001})
    assert [each.confidence for each in merged.findings] == ["suspected"]
