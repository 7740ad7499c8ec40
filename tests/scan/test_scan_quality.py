import importlib.util
from pathlib import Path

import pytest

import pitstop

HERE = Path(pitstop.__file__).parents[2] / "benchmarks" / "scan_quality.py"
pytestmark = pytest.mark.skipif(not HERE.exists(), reason="benchmarks come with the repository")


@pytest.fixture(scope="module")
def quality():
    spec = importlib.util.spec_from_file_location("scan_quality", HERE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_verdicts_say(quality):
    assert quality.PAGE.read_text(encoding="utf-8") == quality.page(quality.read_verdicts())


def test_every_hit_has_one_verdict_and_every_doubt_a_reason(quality):
    verdicts = quality.read_verdicts()
    assert len({each.place for each in verdicts}) == len(verdicts) > 300
    assert [each for each in verdicts if each.verdict != "thanks" and not each.reason] == []


def test_no_rule_that_is_shown_is_too_often_worthless(quality):
    assert quality._too_often_worthless(quality.read_verdicts()) == []
