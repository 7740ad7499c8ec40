import json
from dataclasses import replace

import pytest

from examples import FINDING, REPORT
from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.core.report import Report
from pitstop.report import to_github, to_sarif


def results(report):
    (run,) = json.loads(to_sarif.render(report))["runs"]
    return run["results"]


def moved(finding, lines):
    span = finding.span
    place = replace(span, line=span.line + lines, end_line=span.end_line + lines)
    return replace(finding, span=place)


def test_sarif_names_rule_place_help_and_fix():
    log = json.loads(to_sarif.render(REPORT))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (rule["id"], rule["help"]["text"]) == ("PIT201", REPORT.docs["PIT201"])
    (result,) = run["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "src/train.py", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 88, "startColumn": 9, "endLine": 88, "endColumn": 30}
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [
        {"deletedRegion": {"charOffset": 120, "charLength": 7}, "insertedContent": {"text": ""}}
    ]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert notes[0]["message"]["text"] == REPORT.skipped[0]


def test_fingerprints_survive_moved_lines_and_tell_twins_apart():
    here = replace(FINDING, message="Runs in the loop at train.py:88.")
    there = moved(replace(here, message="Runs in the loop at train.py:91."), 3)
    one, two = (results(replace(REPORT, findings=(each,))) for each in (here, there))
    assert one[0]["partialFingerprints"] == two[0]["partialFingerprints"]
    twins = results(replace(REPORT, findings=(here, there)))
    assert twins[0]["partialFingerprints"] != twins[1]["partialFingerprints"]
    other = results(replace(REPORT, findings=(replace(here, code="PIT202"),)))
    assert one[0]["partialFingerprints"] != other[0]["partialFingerprints"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/é.py", "a%20b/%C3%A9.py"),
        ("/abs/a.py", "file:///abs/a.py"),
        ("C:/x/a.py", "file:///C%3A/x/a.py"),
    ],
)
def test_paths_become_uris(path, uri):
    finding = replace(FINDING, span=Span(path, 1, 1, 1, 2))
    (result,) = results(replace(REPORT, findings=(finding,)))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_fix_over_two_files_changes_both():
    fix = Fix("x", (Edit(0, 1, "a"), Edit(2, 3, "b", "other.py")))
    (result,) = results(replace(REPORT, findings=(replace(FINDING, fix=fix),)))
    changes = result["fixes"][0]["artifactChanges"]
    assert [each["artifactLocation"]["uri"] for each in changes] == ["src/train.py", "other.py"]


def test_a_report_without_findings_is_still_a_log():
    assert results(Report("scan", "Nothing found.")) == []


def test_github_escapes_what_would_end_the_line():
    finding = Finding(
        "50 % of\nit, see: x", Span("a,b:c.py", 1, 2, 1, 5), severity="note", code="PIT1", rule="r"
    )
    text = to_github.render(Report("scan", "Done.", findings=(finding,)))
    mark, first, last = text.splitlines()
    assert mark == f"{to_github.MARK}scan"
    assert first == (
        "::notice title=PIT1 r,file=a%2Cb%3Ac.py,line=1,col=2,endLine=1,endColumn=5"
        "::50 %25 of\\nit, see: x"
    )
    assert last == "Done."


def test_github_gives_no_column_at_the_end_of_several_lines():
    finding = replace(FINDING, span=Span("a.py", 1, 2, 3, 4))
    text = to_github.render(replace(REPORT, findings=(finding,)))
    assert "endLine=3" in text
    assert "endColumn" not in text
