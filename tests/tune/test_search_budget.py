"""What a search does with a budget that has no room for all: breadth first, and still a proof."""

from dataclasses import replace

import pytest

from pitstop.compare.pairs import FEWEST, Pairs
from pitstop.tune.found import PASSENGER, Asked, leading
from pitstop.tune.journal import Journal
from pitstop.tune.plan import Toggle
from pitstop.tune.search import Search
from pitstop.tune.track import Checked, RunError, forever
from tune.simulation import (
    COSTS,
    LOADER,
    LOADER_OF_ONE,
    Simulated,
    Uneven,
    candidate,
    failing,
    loader_bound,
    search,
    verdicts,
)


@pytest.mark.parametrize(
    ("kept", "more_s", "slow_s", "verdict"),
    [
        ((), 60, 34.0, "not-applicable"),
        ((), 220, 34.0, "kept"),  # its trial is its proof
        (("tf32",), 180, 34.0, "not-applicable"),
        ((), 0, 1.2, "kept"),
    ],
)
def test_a_change_whose_runs_start_late_leaves_the_proof_its_time(kept, more_s, slow_s, verdict):
    """As cuDNN does that times its algorithms: half a minute in each fresh process."""
    benchmark = candidate("cudnn-benchmark", toggles=False)
    tried = [*map(candidate, kept), benchmark]
    budget_s = COSTS.null_s + COSTS.candidates_s(tried) + COSTS.reserve_s(*tried) + more_s
    track = Simulated(lambda on: 100.0 * 0.8 ** len(on), budget_s=budget_s)
    honest = track.check
    track.check = lambda *asked: replace(
        honest(*asked),
        slow_s=slow_s if any(each.name == "cudnn-benchmark" for each in asked[0]) else 1.0,
    )
    trial = search(track, tried).trials[-1]
    assert trial.verdict == verdict
    said = "no room in the budget for its pairs: each run starts 33 s later"
    assert (trial.note == said) is (verdict != "kept")
    assert bool(track.runs("sample", *kept, "cudnn-benchmark")) is (verdict == "kept")


def test_what_was_compiled_once_costs_the_proof_no_more_than_it_did_when_it_was_timed():
    budget_s = (
        COSTS.null_s + COSTS.proof_s(switched=False) + COSTS.candidate_s(candidate("compile")) + 50
    )
    track = Simulated(lambda on: 50.0 if on else 100.0, budget_s=budget_s)
    honest = track.check
    track.check = lambda *asked: replace(honest(*asked), compile_s=60.0 if asked[0] else 0.0)
    found = search(track, [candidate("compile")])
    assert leading(found, "time").pairs == 6
    assert found.notes == ()


def test_a_run_that_does_not_end_leaves_the_proof_its_time():
    """As a compiler may that is given a deep network: minutes, for each of its options."""
    scopes = tuple({"scope": each} for each in ("whole", "blocks", "inside-checkpoints"))
    tried = [candidate("tf32"), candidate("compile", options=scopes, alone=True)]
    track = Simulated(lambda on: 80.0 if on else 100.0, budget_s=180.0)
    honest, given = track.check, []

    def check(changes, toggle=None, patience_s=0.0, new=1):
        if not any(each.name == "compile" for each in changes):
            return honest(changes, toggle, patience_s)
        given.append((patience_s(), track.left_s()))
        track.clock_s += patience_s()
        raise failing("did not end within its time")

    track.check = check
    found = search(track, tried)
    assert [each.verdict for each in found.trials] == ["kept", "failed", *["not-applicable"] * 2]
    assert "the budget is spent" in found.trials[-1].note
    assert found.proof
    assert found.proof[0].pairs == FEWEST
    ((patience_s, left_s),) = given
    assert 3 * COSTS.run_s < patience_s < left_s - COSTS.proof_s(switched=True)
    assert track.left_s() > 0


def test_a_run_that_ends_late_is_what_the_budget_has_room_for():
    scopes = tuple({"scope": each} for each in ("whole", "blocks"))
    track = Simulated(lambda on: 80.0 if on else 100.0, budget_s=180.0)
    honest = track.check

    def check(changes, toggle=None, patience_s=lambda: 0.0, new=1):
        track.clock_s += patience_s() if changes else 0.0
        return honest(changes, toggle, patience_s)

    track.check = check
    found = search(track, [candidate("compile", options=scopes, alone=True)])
    assert verdicts(found)["compile scope=blocks"] == "not-applicable"
    room = "not tried, since the budget has room for compile scope=whole only"
    assert room in [each.note for each in found.trials]


def test_a_compiler_of_a_script_too_short_for_blocks_leaves_the_proof_its_time():
    """Each of its fresh runs would compile."""
    compiled = candidate("compile", alone=True)
    track = Simulated(lambda on: 50.0 if on else 100.0, length=10, budget_s=190.0)
    honest = track.check
    track.check = lambda *asked: replace(honest(*asked), compile_s=20.0 if asked[0] else 0.0)
    (trial,) = search(track, [compiled]).trials
    assert (trial.verdict, track.runs("sample")) == ("not-applicable", 0)
    assert "each run starts 20 s later" in trial.note


def short_of_time(step_ms, *candidates, from_the="last trial on"):
    """A search whose budget is nearly spent when all candidates were tried, or one was dropped."""
    track = Simulated(step_ms, budget_s=400.0)
    slow = Search(track, COSTS, Asked())
    left_s = track.left_s

    def left():
        trials = slow.found.trials
        dropped = any(each.note == PASSENGER for each in trials)
        tried = from_the == "last trial on" and len(trials) == len(candidates)
        return 3.9 * COSTS.run_s if dropped or tried else left_s()

    track.left_s = left
    return slow.run(candidates), track


def test_a_budget_that_ends_says_what_was_not_tried_and_still_proves():
    track = Simulated(lambda on: 80.0 if "tf32" in on else 100.0, budget_s=61.0)
    dear = candidate("compile", toggles=False)
    found = search(track, [candidate("tf32"), LOADER, dear, candidate("bf16")])
    assert verdicts(found) == {"tf32": "kept", "bf16": "not-faster"}  # the cheap one had room
    assert found.notes == ("not tried, since the budget is spent: loader, compile",)
    assert track.clock_s <= 61
    assert leading(found, "time").verdict == "better"


def test_a_first_run_that_hangs_leaves_room_for_the_others():
    track, waited = Simulated(lambda _: 100.0, budget_s=100.0), {}

    def check(changes, toggle=None, patience_s=forever, new=1):
        waited[changes and changes[-1].name] = patience_s(), track.left_s()
        return Simulated.check(track, changes, toggle)

    track.check = check
    bf16, tf32 = candidate("bf16"), candidate("tf32")
    search(track, [bf16, tf32])
    patience_s, left_s = waited["bf16"]
    later_s = COSTS.candidate_s(tf32) + COSTS.proof_s(switched=True)
    assert patience_s == pytest.approx(left_s - later_s, rel=0.05)
    patience_s, left_s = waited["tf32"]
    assert patience_s == left_s  # it is the last, and would be the only one


def test_a_budget_without_room_for_all_options_tries_the_first_of_them():
    track = Simulated(lambda on: 80.0 if "compile" in on else 100.0, budget_s=60.0)
    scopes = candidate("compile", options=({"scope": "whole"}, {"scope": "blocks"}))
    found = search(track, [scopes, candidate("bf16")])
    assert verdicts(found) == {"compile scope=whole": "kept", "bf16": "not-faster"}
    assert found.notes == ("not tried, to leave other changes their time: compile scope=blocks",)


@pytest.mark.parametrize(("few", "tried"), [(0.83, [4, 8]), (0.6, [4])])
def test_another_option_comes_before_others_where_the_first_falls_short_of_the_promise(few, tried):
    workers = ({"workers": 4}, {"workers": 8}, {"workers": 16})
    loader = candidate("loader", options=workers, predicted=0.5)
    ratios = {0: 1.0, 4: few, 8: 0.57, 16: 0.5}
    track = Simulated(lambda on: 100 * ratios[on.get("loader", {}).get("workers", 0)], noise=0.001)
    tf32 = candidate("tf32")
    first_looks_s = COSTS.candidates_s([loader.first(1), tf32]) + COSTS.proof_s(switched=True)
    track.budget_s = COSTS.null_s + first_looks_s + 1.0
    found = search(track, [loader, tf32])
    runs = [names for kind, names in track.log if (kind, names) == ("check", ("loader",))]
    assert len(runs) == len(tried)
    assert [each.options["workers"] for each in found.kept] == tried[-1:]


def test_a_closer_look_comes_after_the_first_look_at_everything_else():
    """Which may bring far more than what noise has hidden, promised or not."""
    promised = [candidate(name, predicted=0.02) for name in ("tf32", "fused-optimizer")]
    track = Uneven(lambda on: 100.0 * 0.99 ** (len(on) - ("threads" in on)), noise=0.0)
    search(track, [*promised, candidate("threads")])
    checks = [each for kind, each in track.log if kind == "check"]
    first_looks = [(), ("tf32",), ("fused-optimizer",), ("threads",)]
    assert checks[:5] == [*first_looks, ("tf32", "fused-optimizer")]


def test_what_is_pointless_by_then_takes_no_room():
    """fp16 is like bf16, which fails, and threads has its three options in place of it."""
    threads = candidate("threads", options=({"threads": 1}, {"threads": 2}, {"threads": 4}))
    track = Simulated(lambda _: 100.0, refused={"bf16": Checked("failed", "RuntimeError")})
    fp16 = candidate("fp16", like=("bf16",))
    track.budget_s = COSTS.null_s + COSTS.candidates_s([candidate("bf16"), threads]) + 1.0
    found = search(track, [candidate("bf16"), threads, fp16])
    assert not found.notes
    assert track.runs("check", "threads") == 3


def test_for_memory_no_time_is_set_aside_for_pairs():
    shares = candidate("tiled-vae", options=({"share": 0.5}, {"share": 0.25}))
    others = [candidate("no-empty-cache"), candidate("checkpointing-on")]
    track = Simulated(lambda _: 100.0)
    costs = replace(COSTS, timed=False)
    track.budget_s = costs.null_s + 4 * costs.run_s + costs.proof_s(switched=False) + 1.0
    found = Search(track, costs, Asked(goal="memory")).run([shares, *others])
    assert len(found.trials) == 4
    assert not found.notes


def test_a_search_that_is_resumed_waits_no_longer_than_it_has_time(tmp_path):
    """What lies on the disk takes none of it, and is there after the wait."""

    class Hangs(Simulated):
        def check(self, changes, toggle=None, patience_s=forever, new=1):
            if any(each.name == "compile" for each in changes):
                self.clock_s += patience_s()
                raise RunError("not-applicable", "no room in the budget", hasty=True)
            return Simulated.check(self, changes, toggle, patience_s)

    kept = []
    for _ in range(2):
        track = Hangs(lambda on: 100 * 0.8 ** len(on), noise=0.0, budget_s=200.0)
        candidates = [candidate("compile"), candidate("tf32"), candidate("bf16")]
        found = Search(Journal(track, tmp_path), COSTS, Asked()).run(candidates)
        kept.append([each.name for each in found.kept])
        assert found.proof
    assert kept == [["tf32", "bf16"]] * 2


@pytest.mark.parametrize(("budget_s", "closer"), [(60.0, 0), (150.0, 1)])
def test_closer_looks_at_one_candidate_leave_room_for_the_others(budget_s, closer):
    faster = lambda on: 100.0 * (0.97 if "tf32" in on else 1) * (0.5 if "bf16" in on else 1)  # noqa: E731
    track = Simulated(faster, noise=0.05, budget_s=budget_s)
    found = search(track, [candidate("tf32"), candidate("bf16")])
    assert verdicts(found) == {"tf32": "noisy", "bf16": "kept"}
    assert track.runs("check", "bf16", "tf32") == closer


def test_without_room_for_fresh_pairs_all_that_was_kept_is_switched_in_one_process():
    faster = lambda on: 100.0 * 0.8 ** len(on)  # noqa: E731
    found, track = short_of_time(faster, candidate("tf32"), candidate("bf16"))
    step = leading(found, "time")
    assert (step.verdict, step.pairs) == ("better", 6)
    assert step.ratio == pytest.approx(0.64, rel=0.01)
    assert step.reason.endswith("by blocks of steps")
    assert not track.runs("sample")


def test_a_change_that_alone_was_kept_is_proved_anew_where_there_is_room_for_blocks():
    found, track = short_of_time(lambda on: 80.0 if on else 100.0, candidate("tf32"))
    assert track.log[-1] == ("blocks", ("tf32",))
    assert leading(found, "time").reason.endswith("by blocks of steps")


def test_without_room_for_fresh_pairs_the_trial_of_the_only_change_is_its_proof():
    found, track = short_of_time(lambda on: 80.0 if on else 100.0, LOADER_OF_ONE)
    assert found.proof == (replace(found.trials[0].step, reason="more than 1.0 %, in its trial"),)
    assert track.runs("sample") == 6


def test_a_budget_for_the_pairs_of_one_change_is_enough_for_it():
    budget_s = COSTS.null_s + COSTS.candidate_s(LOADER) + 10
    track = Simulated(loader_bound, budget_s=budget_s)
    found = search(track, [LOADER, candidate("tf32")])
    assert verdicts(found) == {"loader workers=1": "not-faster", "loader workers=2": "kept"}
    assert leading(found, "time").reason.endswith("in its trial")
    assert found.notes == ("not tried, since the budget is spent: tf32",)
    assert track.clock_s < budget_s


def test_a_trial_on_top_of_what_was_dropped_later_is_no_proof():
    def step(on):
        return 100.0 - (20 if on else 0) - (20 if "loader" in on else 0)

    found, _ = short_of_time(step, candidate("tf32"), LOADER_OF_ONE, from_the="passenger on")
    assert [each.name for each in found.kept] == ["loader"]
    assert "only 1 pair" in found.notes[-1]


class SlowStart(Simulated):
    """Runs with the first change are at speed a minute later."""

    def _once(self, kind, changes, steps=0):
        self.clock_s += self._later_s(changes)
        return super()._once(kind, changes, steps)

    def check(self, changes, toggle=None, patience_s=None, new=1):
        found = super().check(changes, toggle, patience_s)
        return replace(found, slow_s=self._later_s(changes))

    def _later_s(self, changes):
        return 60.0 * any(each.name == "fused-group-norm" for each in changes)


@pytest.mark.parametrize("budget_s", range(150, 900, 50))
def test_a_kept_change_that_starts_slowly_is_planned_for_in_all_later_runs(budget_s):
    names = ("fused-group-norm", "tf32", "bf16", "channels-last", "threads")
    track = SlowStart(lambda on: 100 * 0.9 ** len(on), budget_s=budget_s)
    found = search(track, [candidate(each) for each in names])
    assert "fused-group-norm" in {each.name for each in found.kept}
    assert track.clock_s < budget_s + 10


@pytest.mark.parametrize("given", [0, 1])
def test_a_script_that_ends_sooner_with_each_run_is_not_run_on_and_on(given):
    class Shorter(Simulated):
        def _switched(self, changes, toggle, first=0):
            return Pairs((1000.0,) * given, (900.0,) * given)

    costs = replace(COSTS, step_s=1.0, steps=9, toggle=Toggle(steps=1, warmup=3, lead=0))
    track = Shorter(lambda _: 1000.0, budget_s=1800.0)
    Search(track, costs, Asked()).run([candidate("tf32")])
    assert track.runs("blocks", "tf32") <= 4


def test_runs_of_a_script_of_known_length_go_on_where_it_has_room():
    loader = candidate("loader", alone=True, burst=8)  # its blocks find the script's end
    others = [candidate(each) for each in ("tf32", "bf16", "channels-last")]
    track = Simulated(lambda _: 100.0, length=190)
    found = Search(track, COSTS, Asked()).run([loader, *others])
    assert {each.change for each in found.trials} >= {"tf32", "bf16", "channels-last"}
    assert all(track.runs("blocks", each.change.name) == 0 for each in others)


def test_what_one_passenger_tells_of_the_script_s_length_is_known_to_the_next():
    class Noisy(Uneven):
        def check(self, changes, toggle=None, patience_s=None, new=1):
            return replace(super().check(changes, toggle, patience_s), noise=0.06)

    asked = []

    class Counted(Noisy):
        def blocks(self, changes, toggle):
            found = super().blocks(changes, toggle)
            asked.append((toggle.steps, toggle.pairs, len(found.before)))
            return found

    names = ("tf32", "fused-optimizer", "channels-last", "no-empty-cache", "threads")
    track = Counted(lambda on: 100 * 0.98 ** len(on), noise=0.0, length=90)
    search(track, [candidate(each) for each in names])
    short = [each for each in asked if each[2] < each[1]]
    assert len(short) <= 2  # of the group, and of the first
