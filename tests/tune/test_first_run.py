"""What the first run says of the cost of all others."""

from types import SimpleNamespace

import pytest

from pitstop.core.evidence import Evidence, Step
from pitstop.tune.first_run import _costs


def run(*steps, wall_s, **options):
    return SimpleNamespace(evidence=Evidence(steps=steps, **options), wall_s=wall_s)


def test_what_inspecting_took_is_no_part_of_a_start():
    """Two steps of a second, and ten seconds in which what was inspected is read."""
    steps = Step(1000.0, ended_s=4.0), Step(1000.0, ended_s=15.0)
    assert _costs(run(*steps, wall_s=18.0), 20).start_s == pytest.approx(6.0)
    assert _costs(run(*steps, wall_s=18.0, validation_s=2.0), 20).start_s == pytest.approx(8.0)
    assert _costs(run(*steps, wall_s=11.0), 20).start_s > 0
