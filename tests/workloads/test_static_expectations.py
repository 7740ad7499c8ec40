"""What the scan must find in the five systems, and what it must not, line by line."""

from functools import cache

import pytest

from pitstop.scan.run import Options, scan
from pitstop.scan.worker import static_rules
from pitstop.workloads import bench, expect

CODES = {rule.code for rule in static_rules()}
NAMES = bench.names()
EXPECTED = [(name, each) for name in NAMES for each in expect.load(name).source]


@cache
def findings(name):
    """All findings of one workload, scanned as a project of its own."""
    report = scan([expect.FOLDER / name], Options(use_cache=False, jobs=1))
    assert report.skipped == ()
    return report.findings


@pytest.mark.parametrize(
    ("name", "expected"), EXPECTED, ids=[f"{name}-{each.code}-{each.at}" for name, each in EXPECTED]
)
def test_the_defect_is_found_at_its_line(name, expected):
    if expected.code not in CODES:
        pytest.skip(f"{expected.code} has no rule that reads source")
    line = expect.line_of(name, expected)
    places = [
        (each.span.line, each.span.end_line)
        for each in findings(name)
        if each.code == expected.code and each.span.path.endswith(expected.file)
    ]
    assert any(first <= line <= last for first, last in places), f"line {line}, found {places}"


@pytest.mark.parametrize("name", NAMES)
def test_what_an_expert_would_not_agree_with_is_not_found(name):
    never = {each.code for each in expect.load(name).never}
    assert [each for each in findings(name) if each.code in never] == []
