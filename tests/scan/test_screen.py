from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.core.report import Report
from pitstop.core.rule import Rule
from pitstop.report import to_terminal
from pitstop.scan.screen import SCREENFUL, first_screen

RULES = [
    Rule("PIT201", "sync", "", lambda _: iter(()), "likely"),
    Rule("PIT606", "fused", "", lambda _: iter(()), "small"),
    Rule("PIT605", "tiny", "", lambda _: iter(()), "small"),
]


def finding(code, path, line, message="Slow.", **fields):
    return Finding(message, Span(path, line, 1, line, 9), code=code, rule="r", **fields)


def screen(*findings):
    return first_screen(Report("scan", "5 findings in 2 of 3 files.", findings=findings), RULES)


def lines(report):
    return [f"{each.span.path}:{each.span.line} {each.message}" for each in report.findings]


def test_what_costs_in_each_step_of_the_projects_own_code_comes_first():
    report = screen(
        finding("PIT606", "a.py", 1, "Fuse."),
        finding("PIT201", "third_party/a.py", 1, "Waits (forward of N)."),
        finding("PIT201", "b.py", 2, "Waits (forward of N)."),
        finding("PIT201", "c.py", 3, "Reads (loop over loader)."),
        finding("PIT606", "d.py", 4, "Breaks.", severity="error"),
    )
    assert [line.partition(" ")[0] for line in lines(report)] == [
        *("d.py:4", "c.py:3", "b.py:2", "a.py:1", "third_party/a.py:1")
    ]
    assert report.verdict == "3 causes likely to cost you, 2 small: 5 findings in 2 of 3 files."


def test_copies_are_one_line_that_names_some_of_them():
    copies = [
        finding("PIT201", f"{name}.py", 7, f"`{name}.item()` waits (loop at {name}.py:1).")
        for name in "abcde"
    ]
    (line,) = lines(screen(*copies))
    assert line == (
        "a.py:7 `a.item()` waits (loop at a.py:1). (certain) "
        "And 4 more like it: b.py:7, c.py:7, d.py:7, ..."
    )


def test_a_statement_is_told_one_thing_of_a_subject():
    same = [finding("PIT605", "a.py", 7, "One."), finding("PIT606", "a.py", 7, "Other.")]
    other = finding("PIT201", "a.py", 7, "Third.")
    assert len(screen(*same).findings) == 1
    assert len(screen(*same, other).findings) == 2


def test_a_screenful_is_the_most_and_the_rest_is_counted():
    report = screen(*(finding("PIT201", f"{n}.py", 1, f"Kind {n}.") for n in range(30)))
    assert len(report.findings) == SCREENFUL
    assert report.notes == (f"{30 - SCREENFUL} findings more: --all lists every one",)


def test_the_star_is_for_safe_fixes_alone():
    edits = (Edit(0, 1, "x"),)
    for fix, star in ((Fix("t", edits, safe=True), True), (Fix("t", edits), False)):
        text = to_terminal.render(
            Report("scan", "x", findings=(finding("PIT201", "a", 1, fix=fix),))
        )
        assert ("[*]" in text) is star
