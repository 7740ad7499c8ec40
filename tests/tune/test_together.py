"""Gains that drown in noise one by one, tried together on a simulated script."""

from collections import defaultdict
from dataclasses import replace
from math import prod

import pytest

from pitstop.compare.pairs import Pairs, Quality
from pitstop.compare.quantities import Quantity
from pitstop.tune.found import PASSENGER, Asked, leading
from pitstop.tune.track import Checked, forever
from tune.simulation import COSTS, Simulated, Uneven, candidate, failing, search, verdicts


def small_gains(on):
    """Two hundredths each: less than what blocks differ by."""
    return 100.0 * 0.98 ** len(on)


SMALL = [candidate(name) for name in ("tf32", "fused-optimizer", "channels-last")]
TOGETHER = "tf32 + fused-optimizer + channels-last"


@pytest.mark.parametrize("length", [1000, 60])
def test_gains_that_drown_one_by_one_are_tried_together(length):
    track = Uneven(small_gains, noise=0.0, budget_s=300.0, length=length)
    found = search(track, SMALL)
    drowned = dict.fromkeys(("tf32", "fused-optimizer", "channels-last"), "noisy")
    assert verdicts(found) == {**drowned, TOGETHER: "kept"}
    assert [each.name for each in found.kept] == ["tf32", "fused-optimizer", "channels-last"]
    trial = found.trials[-1]
    assert trial.step.ratio == pytest.approx(0.98**3, abs=0.005)
    assert None not in {trial.memory, trial.drift, trial.before, trial.after}
    assert leading(found, "time").verdict == "better"


@pytest.mark.parametrize("number", [2, 3])
def test_what_would_count_for_nothing_has_no_closer_look(number):
    """Of 0.45 % each, two are less than a hundredth."""
    track = Uneven(lambda on: 100.0 * 0.9955 ** len(on), noise=0.0, budget_s=300.0)
    found = search(track, SMALL[:number])
    assert set(verdicts(found).values()) == {"noisy"}
    assert len(found.trials) == (2 if number == 2 else 4)
    assert found.notes == ()


def test_what_was_kept_together_stays_and_what_came_before_may_go():
    """bf16 helps until all the others are there."""

    def step_ms(on):
        others = set(on) - {"bf16"}
        return 75.0 if len(others) == 3 else small_gains(others) * (0.8 if "bf16" in on else 1.0)

    track = Uneven(step_ms, noise=0.0, budget_s=900.0)
    found = search(track, [candidate("bf16"), *SMALL])
    assert [each.name for each in found.kept] == ["tf32", "fused-optimizer", "channels-last"]
    assert verdicts(found)[TOGETHER] == "kept"
    assert found.trials[0].note == PASSENGER


def test_a_passenger_of_a_group_goes_where_longer_blocks_show_it():
    """Each block is noisy; the first looks cannot tell the gain from the passenger."""

    class Stepwise(Simulated):
        steps = 4  # of a block

        def _time(self, changes):
            noise = self._random.gauss(0, 0.06 / self.steps**0.5)
            return self.step_ms({each.name for each in changes}) * (1 + noise)

        def _switched(self, changes, toggle, first=0):
            self.steps = toggle.steps
            lengths[toggle.changes, len(changes)].add(toggle.steps)
            return Simulated._switched(self, changes, toggle, first)

        def check(self, changes, toggle=None, patience_s=None, new=1):
            return replace(Simulated.check(self, changes, toggle, patience_s), noise=0.06)

    gains = {"tf32": 0.96, "fused-optimizer": 0.95, "channels-last": 1.0}
    kept, lengths = [], defaultdict(set)
    for seed in range(20):
        track = Stepwise(lambda on: 100.0 * prod(gains[each] for each in on), budget_s=3600.0)
        track._random.seed(seed)
        found = search(track, SMALL)
        kept += [each.name for each in found.kept]
        for group in (each for each in found.trials if each.change == TOGETHER):
            gone = [each for each in gains if each not in {wanted.name for wanted in found.kept}]
            told = f"then without {', '.join(gone)}: " if gone else ""
            assert group.verdict != "kept" or group.note.startswith(told)
    assert kept.count("tf32") >= 17
    assert kept.count("fused-optimizer") >= 17
    assert kept.count("channels-last") <= 3
    assert lengths[1, 1] == {COSTS.toggle.steps}  # a first look
    assert lengths[3, 3] == {14}  # all of them at once
    assert 14 in lengths[1, 3]  # all but one of them


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("length", [50, 55, 70, 150])
def test_where_the_script_ends_before_calm_blocks_shorter_ones_follow_and_no_second_check(
    length, goes_on
):
    class Noisy(Uneven):
        def check(self, changes, toggle=None, patience_s=None, new=1):
            return replace(Uneven.check(self, changes, toggle, patience_s), noise=0.06)

        def _switched(self, changes, toggle, first=0):
            lengths.append(toggle.steps * (toggle.changes == 3))
            return Uneven._switched(self, changes, toggle, first)

    lengths = []
    track = Noisy(small_gains, noise=0.0, length=length)
    psnr = Quantity(Quality("psnr", "", higher_is_better=True), lambda _: 30.0)
    found = search(track, SMALL, Asked(metrics=() if goes_on else (psnr,)))
    assert verdicts(found)[TOGETHER] == "kept"
    assert track.runs("check", *TOGETHER.split(" + ")) == 1
    rest = [each for each in lengths if each]
    assert rest[-1] < 14
    assert max(rest) == 14 or length < 60
    assert rest[-1] * 12 >= (length - COSTS.steps) / 2  # and not much shorter than they can be


@pytest.mark.parametrize("promised", [None, 0.001, 0.3])
def test_what_drowned_is_tried_together_before_what_compiles(promised):
    """Unless that promises more than they seemed to bring, and has no room behind it."""
    compiles = candidate("compile", alone=True, predicted=promised)
    room_s = COSTS.null_s + COSTS.candidates_s([*SMALL, compiles]) + 1.25 * COSTS.blocks_s(6)
    track = Uneven(small_gains, noise=0.0, budget_s=room_s + 1.0)
    search(track, [*SMALL, compiles])
    asked = [names for kind, names in track.log if kind == "check"]
    together = tuple(each.change.name for each in SMALL)
    assert (together in asked) == (promised != 0.3)
    assert (("compile",) in asked) == (promised == 0.3)
    roomy = Uneven(small_gains, noise=0.0)
    search(roomy, [*SMALL, compiles])
    asked = [names for kind, names in roomy.log if kind == "check"]
    assert asked.index(together) < asked.index((*together, "compile"))


def test_numbers_that_drift_only_together_are_refused():
    track = Uneven(small_gains, noise=0.0, budget_s=300.0)

    def check(changes, toggle=None, patience_s=None, new=1):
        found = Simulated.check(track, changes, toggle, patience_s)
        return replace(found, refused="drifted", note="loss") if len(changes) == 3 else found

    track.check = check
    found = search(track, SMALL)
    assert verdicts(found)[TOGETHER] == "drifted"
    assert not found.kept


def test_what_drifts_together_does_not_spoil_the_others():
    track = Uneven(small_gains, noise=0.0, budget_s=3600.0)

    def check(changes, toggle=None, patience_s=None, new=1):
        found = Simulated.check(track, changes, toggle, patience_s)
        both = {"tf32", "bf16"} <= {each.name for each in changes}
        return replace(found, refused="drifted", note="loss") if both else found

    track.check = check
    others = ("fused-optimizer", "channels-last", "threads")
    found = search(track, [candidate(name) for name in ("tf32", "bf16", *others)])
    asked = [names for kind, names in track.log if kind == "check"][6:]
    assert asked == [("tf32", "bf16", *others), ("tf32", "bf16"), ("tf32",), ("bf16",), others]
    assert verdicts(found)["tf32 + bf16"] == "drifted"
    assert [each.name for each in found.kept] == list(others)


@pytest.mark.parametrize("length", [90, 120])
def test_a_script_that_ends_before_long_blocks_is_timed_in_short_ones(length):
    class Noisy(Uneven):
        def check(self, changes, toggle=None, patience_s=None, new=1):
            return replace(Simulated.check(self, changes, toggle, patience_s), noise=0.06)

    track = Noisy(small_gains, noise=0.0, budget_s=3600.0, length=length)
    assert verdicts(search(track, SMALL))[TOGETHER] == "kept"


def test_a_group_of_which_no_block_is_timed_is_left_alone():
    """As where the script ends earlier with all of them."""
    track = Uneven(small_gains, noise=0.0, budget_s=300.0)
    honest = track._switched

    def switched(changes, toggle, first=0):
        return honest(changes, toggle, first) if toggle.changes == 1 else Pairs()

    track._switched = switched
    found = search(track, SMALL)
    assert (found.trials[-1].change, found.trials[-1].verdict) == (TOGETHER, "not-applicable")
    assert not found.kept


def test_a_group_that_hangs_leaves_the_proof_its_time():
    track, waited = Uneven(small_gains, noise=0.0, budget_s=300.0), []

    def check(changes, toggle=None, patience_s=forever, new=1):
        if toggle and toggle.changes == 3:
            waited.append((patience_s(), track.left_s()))
            raise failing()
        return Simulated.check(track, changes, toggle, patience_s)

    track.check = check
    search(track, SMALL)
    ((patience_s, left_s),) = waited
    assert patience_s == pytest.approx(left_s - COSTS.proof_s(switched=True), rel=0.05)


def test_without_room_what_drowned_is_not_tried_again():
    found = search(Uneven(small_gains, noise=0.0, budget_s=75.0), SMALL)
    assert found.notes == (f"not tried once more, since the budget is spent: {TOGETHER}",)


def test_one_alone_is_looked_at_again_where_others_took_less_time_than_theirs():
    track = Uneven(small_gains, noise=0.0, budget_s=75.0)
    track.refused["bf16"] = Checked("failed", "RuntimeError")
    found = search(track, [candidate("tf32"), candidate("bf16"), candidate("fp16", like=("bf16",))])
    assert [each.change for each in found.trials] == ["bf16", "fp16", "tf32"]  # told by its last
    assert track.runs("check", "tf32") == 2
    often = Uneven(small_gains, noise=0.0)
    assert verdicts(search(often, [candidate("tf32")])) == {"tf32": "noisy"}
    assert often.runs("check", "tf32") == 1
