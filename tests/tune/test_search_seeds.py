"""Numbers that one run leaves open: seeds are asked once a change is known to be faster."""

import pytest

from pitstop.tune.found import PASSENGER, Asked
from pitstop.tune.track import Checked, RunError
from tune.simulation import (
    GIB,
    LOADER,
    Simulated,
    Uneven,
    candidate,
    loader_bound,
    search,
    verdicts,
)

HOLDS = Checked(drift=0.02, tolerance=0.05)
DRIFTS = Checked("drifted", "mean loss over 3 seeds 20 % apart", drift=0.2, tolerance=0.05)
CHANGE = candidate("no-attention-weights")


def test_what_is_no_gain_is_spared_other_seeds():
    track = Simulated(lambda _: 100.0, seeds={CHANGE.change.name: DRIFTS})
    (trial,) = search(track, [CHANGE]).trials
    assert (trial.verdict, trial.drift) == ("not-faster", None)
    assert "seeds" not in {kind for kind, _ in track.log}


def test_what_is_faster_is_kept_where_its_numbers_hold_over_seeds():
    track = Simulated(lambda on: 80.0 if on else 100.0, seeds={CHANGE.change.name: HOLDS})
    found = search(track, [CHANGE])
    (trial,) = found.trials
    assert (trial.verdict, trial.drift, trial.tolerance) == ("kept", 0.02, 0.05)
    assert trial.step.verdict == "better"
    assert [each.name for each in found.kept] == [CHANGE.change.name]


@pytest.mark.parametrize("goal", ["time", "memory"])
def test_what_is_faster_or_smaller_goes_where_they_do_not(goal):
    track = Simulated(
        lambda on: 80.0 if on else 100.0,
        seeds={CHANGE.change.name: DRIFTS},
        peak_gib={CHANGE.change.name: -1},
    )
    found = search(track, [CHANGE], Asked(goal))
    (trial,) = found.trials
    assert (trial.verdict, trial.note) == ("drifted", DRIFTS.note)
    assert (trial.step, trial.before, trial.after) == (None, None, None)
    assert found.kept == found.proof == ()


@pytest.mark.parametrize("verdict", ["drifted", "failed"])
def test_where_the_best_number_of_workers_does_not_hold_over_seeds_the_next_is_tried(verdict):
    class Unlucky(Simulated):
        def over_seeds(self, changes):
            super().over_seeds(changes)
            if changes[-1].options["workers"] == 1:
                return HOLDS
            if verdict == "failed":
                raise RunError("failed", "RuntimeError: seed 1")
            return DRIFTS

    found = search(Unlucky(loader_bound, seeds={"loader": HOLDS}), [LOADER])
    assert verdicts(found) == {"loader workers=2": verdict, "loader workers=1": "kept"}
    assert [each.options for each in found.kept] == [{"workers": 1}]


def test_of_many_that_drift_over_seeds_no_more_are_timed_than_the_budget_allows():
    many = candidate(
        "loader", toggles=False, options=tuple({"workers": n} for n in (1, 2, 4, 8)), predicted=0.4
    )
    for budget_s, timed in ((200.0, 1), (3600.0, 4)):
        track = Simulated(
            lambda on: 100 + 10 / on["loader"]["workers"] if on else 180,
            budget_s=budget_s,
            seeds={"loader": DRIFTS},
        )
        found = search(track, [many])
        drifted = [each for each in found.trials if each.verdict == "drifted"]
        assert len(drifted) == timed
        assert track.left_s() > -60
        rest = {each.note for each in found.trials if each not in drifted}
        assert rest == ({"not timed, since the budget is spent"} if timed == 1 else set())


def test_the_memory_of_options_that_are_behind_is_held_against_that_of_before():
    track = Simulated(loader_bound, seeds={"loader": HOLDS}, peak_gib={"loader": 1})
    found = search(track, [LOADER])
    assert verdicts(found) == {"loader workers=1": "not-faster", "loader workers=2": "kept"}
    assert [each.memory.before for each in found.trials] == [2 * GIB] * 2


def test_a_run_of_other_seeds_that_fails_costs_that_trial_only():
    class Broken(Simulated):
        def over_seeds(self, changes):
            raise RunError("failed", "RuntimeError: seed 1")

    track = Broken(lambda on: 100.0 * 0.8 ** len(on), seeds={CHANGE.change.name: HOLDS})
    found = search(track, [CHANGE, candidate("tf32")])
    assert verdicts(found) == {CHANGE.change.name: "failed", "tf32": "kept"}


@pytest.mark.parametrize(("numbers", "verdict"), [(HOLDS, "kept"), (DRIFTS, "drifted")])
def test_what_drowned_one_by_one_is_held_against_seeds_together(numbers, verdict):
    names = (CHANGE.change.name, "tf32", "fused-optimizer")
    track = Uneven(
        lambda on: 100.0 * 0.98 ** len(on),
        noise=0.0,
        budget_s=300.0,
        seeds={CHANGE.change.name: numbers},
    )
    found = search(track, [candidate(name) for name in names])
    assert verdicts(found)[" + ".join(names)] == verdict
    assert track.runs("seeds", *names) == 2
    assert (CHANGE.change.name in {each.name for each in found.kept}) == (verdict == "kept")


@pytest.mark.parametrize("numbers", [HOLDS, DRIFTS])
def test_a_passenger_stays_where_the_others_do_not_hold_over_seeds_without_it(numbers):
    """Beside bf16, tf32 is no gain; that the others hold without it is asked anew."""
    other = CHANGE.change.name

    class Later(Simulated):
        def over_seeds(self, changes):
            super().over_seeds(changes)
            return HOLDS if "tf32" in {each.name for each in changes} else numbers

    def step_ms(on):
        alone = 0.9 if "tf32" in on and "bf16" not in on else 1.0
        return 100.0 * alone * (0.7 if other in on else 1.0) * (0.7 if "bf16" in on else 1.0)

    track = Later(step_ms, seeds={other: HOLDS})
    found = search(track, [candidate("tf32"), CHANGE, candidate("bf16")])
    assert track.runs("seeds", other, "bf16") == 2
    assert len(found.kept) == (2 if numbers is HOLDS else 3)
    assert (found.trials[0].note == PASSENGER) == (numbers is HOLDS)
