"""The search on a simulated script, whose truth is known."""

from dataclasses import replace

import pytest

from pitstop.compare.pairs import Quality
from pitstop.compare.quantities import Quantity
from pitstop.tune.found import Asked, leading
from pitstop.tune.laps import TOO_SHORT
from pitstop.tune.plan import Toggle
from pitstop.tune.search import Search
from pitstop.tune.track import Checked, RunError
from tune.simulation import (
    COSTS,
    GIB,
    LOADER,
    LOADER_OF_ONE,
    Simulated,
    candidate,
    failing,
    loader_bound,
    search,
    verdicts,
)

PSNR = Quantity(Quality("psnr", "", higher_is_better=True), lambda _: 30.0)


def test_a_loader_bound_script_keeps_the_best_number_of_workers():
    track = Simulated(loader_bound)
    found = search(track, [LOADER])
    assert verdicts(found) == {"loader workers=1": "not-faster", "loader workers=2": "kept"}
    assert [dict(each.options) for each in found.kept] == [{"workers": 2}]
    kept = found.trials[-1]
    assert kept.predicted == 0.4
    assert kept.step.ratio == pytest.approx(102 / 180, rel=0.02)
    assert kept.step.low <= kept.step.ratio <= kept.step.high
    assert kept.before.median_ms == pytest.approx(180, rel=0.02)
    assert leading(found, "time").verdict == "better"


def test_a_loader_that_settles_soon_is_timed_and_proved_in_blocks():
    toggles = []
    loader = replace(LOADER, change=candidate("loader", alone=True).change, bursts=lambda *_: 4)
    track = Simulated(loader_bound, budget_s=COSTS.null_s + COSTS.candidate_s(loader) + 30)
    honest = track.blocks
    track.blocks = lambda changes, toggle: toggles.append(toggle) or honest(changes, toggle)
    found = search(track, [loader])
    assert verdicts(found) == {"loader workers=1": "not-faster", "loader workers=2": "kept"}
    assert track.log[-2:] == [("blocks", ("loader",))] * 2  # its trial, and the proof
    assert [(each.lead, each.steps) for each in toggles] == [(8, 8)] * 2
    assert leading(found, "time").verdict == "better"


@pytest.mark.parametrize(
    ("burst", "waits", "goal", "tried"),
    [(4, 0.01, "time", 1), (4, 0.03, "time", 2), (4, 0.01, "memory", 2), (0, 0.01, "time", 2)],
)
def test_more_workers_are_tried_only_where_data_is_still_waited_for(burst, waits, goal, tried):
    loader = replace(LOADER, bursts=lambda *_: burst)
    track = Simulated(loader_bound, waits={1: waits, 2: 0.0})
    found = search(track, [loader], Asked(goal))
    assert track.runs("check", "loader") == tried
    why = "not tried, since data is always there with loader workers=1: loader workers=2"
    assert (why in found.notes) is (tried == 1)


@pytest.mark.parametrize(
    ("waits", "tried"),
    [({1: 0.1, 2: 0.09, 4: 0.1}, 2), ({1: 0.1, 2: 0.05, 4: 0.02}, 3), ({1: 0.1, 2: 0.15}, 3)],
)
def test_where_as_long_is_waited_with_more_workers_no_others_are_tried(waits, tried):
    """A batch takes its time to be handed over, for one."""
    options = tuple({"workers": each} for each in (1, 2, 4))
    loader = replace(LOADER, options=options, bursts=lambda *_: 4)
    track = Simulated(lambda on: 100.0 if on else 180.0, waits=waits)
    found = search(track, [loader])
    assert track.runs("check", "loader") == tried
    why = "data is waited for as long with loader workers=1 as with loader workers=2"
    assert (f"not tried, since {why}: loader workers=4" in found.notes) is (tried == 2)


@pytest.mark.parametrize(("more_s", "verdict"), [(300, "kept"), (30, "not-applicable")])
def test_a_loader_that_this_script_does_not_let_be_switched_is_timed_in_fresh_runs(more_s, verdict):
    loader = replace(LOADER_OF_ONE, change=candidate("loader", alone=True).change)
    budget_s = COSTS.null_s + COSTS.candidate_s(loader) + more_s
    declines = RunError("not-applicable", "it cannot be switched")
    track = Simulated(lambda on: 80.0 if on else 100.0, budget_s=budget_s)
    track.blocks = lambda *_: (_ for _ in ()).throw(declines)
    found = search(track, [loader])
    (trial,) = found.trials
    assert trial.verdict == verdict
    assert (trial.step.pairs if trial.step else 0) == (6 if verdict == "kept" else 0)
    assert bool(found.proof) is (verdict == "kept")
    assert track.clock_s < budget_s


def test_where_nothing_helps_nothing_is_kept_and_nothing_is_proved():
    track = Simulated(lambda _: 100.0)
    found = search(track, [candidate("tf32"), candidate("bf16"), LOADER])
    assert found.kept == ()
    assert found.proof == ()
    assert set(verdicts(found).values()) == {"not-faster"}


def test_a_change_that_drifts_is_not_even_timed():
    drifted = Checked("drifted", "loss apart", drift=0.3, tolerance=1e-3)
    track = Simulated(lambda on: 50.0 if "bf16" in on else 100.0, refused={"bf16": drifted})
    found = search(track, [candidate("bf16")])
    (trial,) = found.trials
    assert (trial.verdict, trial.drift, trial.tolerance) == ("drifted", 0.3, 1e-3)
    assert found.kept == ()
    assert not track.runs("blocks", "bf16")


def test_what_crashes_costs_that_trial_only():
    crash = Checked("failed", "AssertionError: root")
    faster = {"tf32": 0.8, "compile": 0.5, "loader": 0.9}

    def step(on):
        ms = 100.0
        for name in on:
            ms *= faster[name]
        return ms

    track = Simulated(step, refused={"compile": crash})
    loader = candidate("loader", toggles=False)
    found = search(track, [candidate("tf32"), candidate("compile"), loader])
    assert verdicts(found) == {"tf32": "kept", "compile": "failed", "loader": "kept"}
    assert found.trials[1].note == "AssertionError: root"
    assert leading(found, "time").ratio == pytest.approx(0.72, rel=0.03)


def test_a_change_that_crashes_while_it_is_timed_has_failed():
    track = Simulated(lambda _: 100.0, breaks={"compile": failing()})
    found = search(track, [candidate("compile")])
    assert [(each.verdict, each.note) for each in found.trials] == [
        ("failed", "RuntimeError: compile")
    ]


def test_each_candidate_is_tried_on_top_of_those_kept():
    track = Simulated(lambda on: 80.0 if "tf32" in on else 100.0)
    search(track, [candidate("tf32"), candidate("channels-last"), candidate("bf16")])
    assert track.runs("check", "tf32", "channels-last") == 1
    assert track.runs("check", "tf32", "bf16") == 1  # channels-last did not help


def test_what_still_helps_beside_the_others_stays():
    track = Simulated(lambda on: 100.0 * 0.8 ** len(on))
    found = search(track, [candidate("tf32"), candidate("compile")])
    assert [each.name for each in found.kept] == ["tf32", "compile"]
    assert track.runs("blocks", "compile", "tf32") == 1  # left out once more


def test_on_a_noisy_machine_a_small_gain_is_noisy_and_nothing_is_kept():
    track = Simulated(lambda on: 97.0 if on else 100.0, noise=0.15)
    found = search(track, [candidate("compile", alone=True)])
    assert verdicts(found) == {"compile": "noisy"}
    assert found.trials[0].step.pairs == 24
    assert found.kept == ()


def test_identical_runs_are_seldom_kept_however_noisy():
    kept = 0
    for seed in range(60):
        track = Simulated(lambda _: 100.0, noise=0.1)
        track._random.seed(seed)
        kept += bool(search(track, [candidate("tf32")]).kept)
    assert kept <= 3


def test_on_a_machine_where_the_untouched_runs_part_no_single_run_is_believed():
    """The change doubles the speed, and its first run was hit by a neighbour."""
    track = Simulated(lambda on: 50.0 if on else 100.0)
    honest = track.check

    def check(changes, *asked):
        found = honest(changes, *asked)
        return replace(found, step_ms=160.0) if changes else replace(found, apart=0.5)

    track.check = check
    assert verdicts(search(track, [candidate("tf32")])) == {"tf32": "kept"}


def test_what_was_compiled_says_when_that_has_paid_off():
    track = Simulated(lambda on: 50.0 if on else 100.0, noise=0.0)
    honest = track.check
    track.check = lambda *asked: replace(honest(*asked), compile_s=30.0, recompiled=2)
    (trial,) = search(track, [candidate("compile")]).trials
    assert trial.verdict == "kept"
    assert trial.note == "compiles for 30 s, 2 recompilations, which pays off after 600 steps"


def test_what_is_much_slower_in_its_first_run_is_spared_the_pairs():
    track = Simulated(lambda on: 300.0 if on else 100.0)
    found = search(track, [candidate("compile", alone=True)])
    assert verdicts(found) == {"compile": "not-faster"}
    assert not track.runs("blocks", "compile")
    assert track.runs("sample") == 1  # its other neighbour


def test_a_faster_change_that_comes_near_the_memory_limit_is_refused_with_the_number():
    track = Simulated(lambda on: 70.0 if on else 100.0, peak_gib={"checkpointing-off": 7})
    asked = Asked(limit_bytes=int(9.5 * GIB))
    found = search(track, [candidate("checkpointing-off")], asked)
    (trial,) = found.trials
    assert trial.verdict == "out-of-memory"
    assert "9.0 GiB comes near the 9.5 GiB" in trial.note
    assert trial.step.verdict == "better"
    assert found.kept == ()


def test_for_memory_a_change_is_kept_by_its_peak():
    track = Simulated(lambda on: 130.0 if on else 100.0, peak_gib={"checkpointing-on": -1})
    candidates = [candidate("checkpointing-on"), candidate("allocator", toggles=False)]
    found = search(track, candidates, Asked(goal="memory"))
    assert verdicts(found) == {"checkpointing-on": "kept", "allocator": "not-faster"}
    assert found.trials[0].memory.ratio == pytest.approx(0.5)
    assert "1.3" in found.trials[0].note
    assert leading(found, "memory").metric == "gpu-memory"


def test_the_run_that_tells_the_numbers_goes_on_to_tell_the_time():
    track = Simulated(lambda on: 50.0 if on else 100.0)
    (trial,) = search(track, [candidate("tf32")]).trials
    assert (trial.verdict, trial.step.pairs) == ("kept", 6)
    assert not track.runs("blocks", "tf32")


@pytest.mark.parametrize(
    ("tried", "asked"),
    [
        (candidate("compile", alone=True), Asked()),
        (candidate("threads", options=({"threads": 1}, {"threads": 2})), Asked()),
        (candidate("tf32"), Asked(metrics=(PSNR,))),
    ],
    ids=["alone", "options", "metric"],
)
def test_but_not_where_something_else_is_switched_or_read_at_the_end(tried, asked):
    track = Simulated(lambda on: 50.0 if on else 100.0)
    found = search(track, [tried], asked)
    assert "kept" in verdicts(found).values()
    assert track.runs("blocks", tried.change.name) == 1


def test_what_the_first_blocks_leave_open_is_timed_in_more():
    track = Simulated(lambda on: 92.0 if on else 100.0, noise=0.1)
    (trial,) = search(track, [candidate("tf32")]).trials
    assert trial.step.pairs == 24
    assert track.log[1:3] == [("check", ("tf32",)), ("blocks", ("tf32",))]


def test_what_is_never_faster_in_fresh_runs_is_given_up_after_two_pairs():
    track = Simulated(lambda _: 100.0, noise=0.0)
    found = search(track, [LOADER_OF_ONE])
    (trial,) = found.trials
    assert (trial.verdict, trial.note) == ("not-faster", "no gain in any of 2 pairs")
    assert track.runs("sample", "loader") == track.runs("sample") == 2


def short_script(length, budget_s=3600.0, lead=0):
    """What comes of a change on a script that ends before a run of the usual length would."""
    track = Simulated(lambda on: 50.0 if on else 100.0, length=length, budget_s=budget_s)
    costs = replace(COSTS, toggle=replace(COSTS.toggle, lead=lead))
    (trial,) = Search(track, costs, Asked()).run([candidate("tf32")]).trials
    return trial, track


def test_a_short_script_has_shorter_blocks():
    trial, track = short_script(COSTS.steps - 1)
    assert (trial.verdict, trial.step.pairs) == ("kept", 6)
    assert [kind for kind, changes in track.log if changes][:2] == ["check", "blocks"]
    assert track.runs("sample", "tf32") == 6  # in the proof


def test_a_script_too_short_for_blocks_is_timed_in_fresh_runs_where_these_have_room():
    trial, track = short_script(10)
    assert (trial.verdict, trial.step.pairs) == ("kept", 6)
    assert track.runs("sample", "tf32") == 12
    trial, track = short_script(COSTS.steps + 5, budget_s=90.0, lead=1)
    assert (trial.verdict, trial.note) == ("not-applicable", TOO_SHORT)
    assert not track.runs("sample")


@pytest.mark.parametrize("known", [True, False])
def test_a_short_script_of_long_steps_has_a_few_blocks_in_each_of_some_processes(known):
    """Twelve clips of a second each: four pairs of blocks, where six are wanted."""
    track = Simulated(lambda on: 500.0 if on else 1000.0, length=12)
    costs = replace(COSTS, step_s=1.0, steps=9, toggle=Toggle(steps=1, warmup=3, lead=0))
    costs = costs.of_length(12) if known else costs
    found = Search(track, costs, Asked()).run([candidate("tf32")])
    (trial,) = found.trials
    assert (trial.verdict, trial.step.pairs) == ("kept", 6)
    assert track.runs("blocks", "tf32") == 2
    assert track.runs("sample", "tf32") == 6  # in the proof


@pytest.mark.parametrize(
    ("bf16_ms", "breaks", "note"),
    [
        (100.0, {}, "bf16 is no gain, and this is as fast"),
        (100.0, {"bf16": failing()}, "bf16 failed, and this does the same to the script"),
        (125.0, {}, ""),  # a GPU that has no bf16
    ],
)
def test_what_is_like_a_change_that_failed_or_is_no_gain_is_spared(bf16_ms, breaks, note):
    track = Simulated(lambda on: bf16_ms if "bf16" in on else 100.0 - 30 * len(on), breaks=breaks)
    _, fp16 = search(track, [candidate("bf16"), candidate("fp16", like=("bf16",))]).trials
    assert (fp16.verdict, fp16.note) == ("not-applicable" if note else "kept", note)
    assert bool(track.runs("check", "fp16")) is not bool(note)


def test_one_of_two_rivals_is_enough():
    track = Simulated(lambda on: 70.0 if on else 100.0)
    found = search(track, [candidate("bf16"), candidate("fp16", rivals=("bf16",))])
    assert verdicts(found) == {"bf16": "kept", "fp16": "not-applicable"}
    assert found.trials[1].note == "bf16 is kept"


@pytest.mark.parametrize("at", [1, 2, 3, 4, 7])
def test_ctrl_c_gives_what_is_known_by_then(at):
    track = Simulated(lambda on: 100.0 * 0.8 ** len(on), interrupt_at=at)
    found = search(track, [candidate("tf32"), candidate("bf16")])
    assert found.interrupted
    assert len(found.trials) == {1: 0, 2: 0, 3: 1, 4: 2, 7: 2}[at]
    assert len(found.kept) == len(found.trials)


def test_twice_the_batch_is_not_much_slower_because_its_step_is_longer():
    class Larger(Simulated):
        def check(self, changes, toggle=None, patience_s=None, new=1):
            found = super().check(changes, toggle, patience_s)
            return replace(found, batch=8 if changes else 4)

        def sample(self, changes):
            return replace(super().sample(changes), batch=8 if changes else 4)

    larger = candidate("batch-size", toggles=False)
    found = search(Larger(lambda on: 160.0 if on else 100.0), [larger])
    assert verdicts(found) == {"batch-size": "kept"}
    found = search(Larger(lambda on: 270.0 if on else 100.0), [larger])
    assert "much slower" in found.trials[0].note
