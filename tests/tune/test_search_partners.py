"""Changes that pay only with another one, on a simulated script."""

from dataclasses import replace

import pytest

from pitstop.tune.change import When
from pitstop.tune.found import Asked
from pitstop.tune.track import Checked
from tune.simulation import COSTS, Simulated, candidate, search, verdicts

NORM = candidate("fused-group-norm", pays_with=("channels-last",))
LAYOUT = candidate("channels-last")
BOTH = "channels-last + fused-group-norm"


def times(alone_ms, layout_ms, both_ms):
    """Of a step with one, with the other and with both; 100 ms without."""
    return lambda on: {
        (): 100.0,
        ("fused-group-norm",): alone_ms,
        ("channels-last",): layout_ms,
        ("channels-last", "fused-group-norm"): both_ms,
    }[tuple(sorted(on))]


def kept(found):
    return [each.name for each in found.kept]


@pytest.mark.parametrize("alone_ms", [100.0, 102.0])
def test_it_is_tried_once_more_on_top_of_what_it_pays_with(alone_ms):
    track = Simulated(times(alone_ms, 80.0, 70.0))
    found = search(track, [NORM, LAYOUT])
    assert kept(found) == ["channels-last", "fused-group-norm"]
    assert verdicts(found) == {"channels-last": "kept", "fused-group-norm": "kept"}
    assert found.trials[-1].step.ratio == pytest.approx(70 / 80, rel=0.02)


def test_where_each_alone_is_slower_both_are_tried_as_one():
    found = search(Simulated(times(102.0, 115.0, 70.0)), [NORM, LAYOUT])
    assert kept(found) == ["channels-last", "fused-group-norm"]
    alone = {"channels-last": "not-faster", "fused-group-norm": "not-faster"}
    assert verdicts(found) == {**alone, BOTH: "kept"}


def test_of_both_as_one_a_passenger_is_dropped():
    """Both were slow for a while when they were tried alone."""

    class Busy(Simulated):
        def _time(self, changes):
            busy = len(changes) == 1 and len(self.log) < 4
            return super()._time(changes) * (1.3 if busy else 1.0)

    found = search(Busy(times(100.0, 80.0, 80.0)), [NORM, LAYOUT])
    assert kept(found) == ["channels-last"]


def test_what_was_kept_alone_has_no_need_of_another_trial():
    track = Simulated(times(90.0, 80.0, 70.0))
    found = search(track, [NORM, LAYOUT])
    assert kept(found) == ["fused-group-norm", "channels-last"]
    assert track.runs("check", "fused-group-norm") == 1


@pytest.mark.parametrize(
    ("refused", "asked"),
    [({"channels-last": Checked("drifted", "loss 1")}, Asked("time")), ({}, Asked("memory"))],
)
def test_a_partner_that_is_refused_is_none_and_for_memory_there_are_none(refused, asked):
    track = Simulated(times(102.0, 115.0, 70.0), refused=refused)
    found = search(track, [NORM, LAYOUT], asked)
    assert BOTH not in verdicts(found)
    assert kept(found) == []


def test_later_changes_have_their_first_look_before_another_chance():
    single = replace(NORM, change=replace(NORM.change, when=When()))
    tries = set()
    for budget_s in range(int(COSTS.null_s), int(COSTS.null_s) + 240, 2):
        with_partners, without = (
            search(
                Simulated(lambda on: 80.0 if "late" in on else 100.0, budget_s=budget_s),
                [norm, LAYOUT, candidate("late", toggles=False)],
            )
            for norm in (NORM, single)
        )
        assert kept(with_partners) == kept(without)
        tries.add((BOTH in verdicts(with_partners), *kept(without)))
    assert {(False, "late"), (True, "late")} <= tries
