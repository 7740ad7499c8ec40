"""Every claim of the reports has a verdict, and the page says what is stored."""

import sys
from pathlib import Path

import pytest

from pitstop.core.comparison import Comparison

FOLDER = Path(__file__).parents[2] / "benchmarks" / "claims"


@pytest.fixture(scope="module")
def run():
    sys.path.insert(0, str(FOLDER))
    try:
        import run

        yield run
    finally:
        sys.path.remove(str(FOLDER))


def test_the_page_is_what_the_stored_results_say(run):
    assert run.PAGE.read_text(encoding="utf-8") == run.page(), (
        "python benchmarks/claims/run.py page"
    )


def test_what_is_stored_belongs_to_a_claim_and_a_device_that_answers_it(run):
    for module, claims in run.reports():
        known = {each.name: each for each in claims}
        assert len(known) == len(claims)
        for device in ("cpu", "cuda"):
            for name in run.load(run.stored_at(run.RESULTS, module, device)):
                assert device in known[name].devices


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict", "least", "expected"),
    [
        (0.5, 0.45, 0.55, "better", 1.5, "true"),
        (0.95, 0.93, 0.97, "better", 1.5, "partly"),
        (1.0, 0.99, 1.01, "same", 1.05, "false"),
        (1.2, 1.1, 1.3, "worse", 1.05, "false"),
        (0.97, 0.8, 1.2, "inconclusive", 1.01, "inconclusive"),
        (0.97, 0.95, 1.2, "inconclusive", 1.10, "false"),
    ],
)
def test_a_gain_that_is_claimed_is_judged_by_its_interval(
    run, ratio, low, high, verdict, least, expected
):
    import claim

    found = Comparison("step", verdict, ratio, low, high, 12)
    assert claim.gained(found, least) == expected
