"""The track of fresh processes, with runs that are scripted instead of started."""

from dataclasses import replace
from pathlib import Path

import pytest

from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Loader, Step
from pitstop.profile.runs import About
from pitstop.tune import pace, processes
from pitstop.tune.budget import toggled_steps
from pitstop.tune.endings import Ending
from pitstop.tune.plan import Block, Outcome, Toggle
from pitstop.tune.track import RunError
from tune.scripted import Script, Scripted, rounding, wanted
from tune.simulation import COSTS


def test_the_noise_of_single_steps_is_told_and_drift_is_none(track, monkeypatch):
    monkeypatch.setattr(
        Scripted, "steps_ms", [100, 100, 100, *(100 * 1.01**each for each in range(9))]
    )
    assert track(Script(rounding)).check(()).noise == pytest.approx(0.009, rel=0.05)
    monkeypatch.setattr(Scripted, "steps_ms", [900, 100, 100, *[100, 120] * 5])
    assert track(Script(rounding)).check(()).noise == pytest.approx(0.16, rel=0.05)


def test_what_the_budget_ended_has_not_failed(track):
    late = Ending(-9, "did not end within 20 s", timed_out=True)
    script = Script(rounding, ending=late)
    with pytest.raises(RunError, match="no room in the budget: it did not end within 20 s") as few:
        track(script).check(wanted("fused"), None, lambda: 20.0)
    assert (few.value.verdict, few.value.hasty) == ("not-applicable", True)
    with pytest.raises(RunError) as many:
        track(script).check(wanted("fused"))
    assert (many.value.verdict, many.value.hasty) == ("failed", False)
    assert [each.timeout_s for each in script.settings] == [20.0, 10 * COSTS.run_s + 300]


def test_what_the_first_steps_take_beyond_the_usual_is_told(track):
    assert track(Script(rounding, first_ms=34_100.0)).check(wanted("fused")).slow_s == 34.0
    assert track(Script(rounding)).check(wanted("fused")).slow_s == 0.0


def test_a_search_does_not_go_on_elsewhere(track):
    before = About(torch="2.11.0", gpu="NVIDIA H200")  # the GPU is not known of the next run
    with pytest.raises(
        PitstopError, match=r"another torch version .* 2\.13\.0 instead of 2\.11\.0"
    ):
        track(Script(rounding), about=before).check(())
    assert track(Script(rounding, torch="2.11.0"), about=before).check(()).step_ms == 100.0


def test_who_waits_hears_what_each_run_is_for(track):
    heard = []
    ours = track(Script(rounding), running=heard.append)
    ours.check(wanted("fused"))
    assert heard == [
        "fused, its numbers (10 minutes left)",
        "untouched, its numbers (10 minutes left)",
        "untouched, its numbers (10 minutes left)",
        "untouched, its weights moved by a hair (10 minutes left)",
    ]
    heard.clear()
    ours.sample(())
    ours.blocks(wanted("exact", "bf16", "fused"), Toggle(changes=2))
    ours.over_seeds(wanted("exact", "loader"))
    assert heard[:2] == [
        "untouched, timed (10 minutes left)",
        "bf16 + fused on top of 1 other, off and on (10 minutes left)",
    ]
    assert "loader on top of 1 other, with another seed (10 minutes left)" in heard


@pytest.mark.parametrize(
    ("script", "verdict", "note"),
    [
        (Script(rounding, Ending(1, "ValueError: x")), "failed", "ValueError: x"),
        (Script(rounding, Ending(1, "CUDA", out_of_memory=True)), "out-of-memory", "CUDA"),
        (Script(rounding, declined="no GPU"), "not-applicable", "no GPU"),
        (Script(rounding, steps=0), "failed", "give more --steps"),
    ],
)
def test_a_run_that_comes_to_nothing(script, verdict, note, track):
    for ask in (track(script).check, track(script).sample):
        with pytest.raises(RunError, match=note) as caught:
            ask(wanted("fused"))
        assert caught.value.verdict == verdict


def test_timed_runs_are_neither_seeded_nor_watched(track, tmp_path):
    script = Script(rounding)
    track(script, compiled=tmp_path / "compiled").sample(wanted("allocator"))
    (asked,) = script.plans
    assert (asked.seed, asked.outputs) == (None, False)
    assert script.settings[0].environment == {"ALLOC": "x"}
    assert script.settings[0].compiled == tmp_path / "compiled"
    assert script.settings[0].steps == COSTS.steps


def test_blocks_are_paired_whichever_comes_first(track, tmp_path):
    order = (False, True, True, False, False, True, True)  # the last one has no partner
    blocks = [Block(on, 0, 4, 80.0 if on else 100.0 + place) for place, on in enumerate(order)]
    script = Script(rounding, blocks=blocks)
    found = track(script).blocks(wanted("fused"), COSTS.toggle)
    assert found.before == (100.0, 103.0, 104.0)
    assert found.after == (80.0, 80.0, 80.0)
    assert script.settings[0].steps > 12 * (COSTS.toggle.steps + 1)
    assert list(Path(tmp_path).iterdir()) == []


def test_each_change_has_the_pairs_of_its_own_blocks(track):
    blocks = [
        Block(on, 0, 4, 80.0 + member if on else 100.0, member)
        for member, order in enumerate([(False, True), (False, True, True, False)])
        for on in order
    ]
    script = Script(rounding, blocks=blocks)
    toggle = replace(COSTS.toggle, changes=2)
    one, two = track(script).each(wanted("fused", "bf16"), toggle)
    assert (one.after, two.after) == ((80.0,), (81.0, 81.0))
    assert script.plans[0].toggle.each
    assert script.settings[0].steps > 2 * 12 * (toggle.steps + 1)


def test_the_budget_runs_by_the_clock(track):
    assert track(Script(rounding)).left_s() == 600.0


@pytest.mark.parametrize(("starts", "share"), [(0, 0.1), (1, 0.1), (2, 0.0), (9, 0.0)])
def test_a_wait_at_the_start_of_an_epoch_is_not_one_of_workers_that_are_too_slow(starts, share):
    steps = (Step(100.0, 50.0), Step(150.0, 50.0), *(Step(100.0),) * 3)
    loaders = (Loader("Clips", 4, batches=5, starts=starts),) if starts else ()
    seen = Evidence(steps=steps, warmup_steps=1, loaders=loaders)
    assert pace.waits(seen) == pytest.approx(share, abs=0.02)
    assert (pace.noise(seen) == 0) is (starts > 1)


def test_a_group_is_refused_where_one_of_it_does_not_take_hold(track):
    class Declines(Scripted):
        def __init__(self, script, wanted):
            super().__init__(script, wanted)
            self.outcomes[:1] = [Outcome("fused", {}, 0, "no optimizer")]

    script = Script(rounding)
    asked = track(script)
    script.run_trial = lambda words, plan, folder, settings: Declines(script, plan)
    processes.run_trial = script.run_trial  # the fixture takes it back
    both = wanted("fused", "bf16")
    with pytest.raises(RunError, match="no optimizer"):
        asked.blocks(both, Toggle(changes=2))
    asked.blocks(both, Toggle(changes=1))  # kept before: another's matter


@pytest.mark.parametrize(
    ("left_s", "timeout_s"), [(1e4, 10 * COSTS.run_s + 300), (30.0, 30.0), (-9.0, 2 * COSTS.run_s)]
)
def test_a_run_that_hangs_takes_what_is_left_of_the_budget_at_most(track, left_s, timeout_s):
    script = Script(rounding, Ending(None, "did not end", timed_out=True))
    with pytest.raises(RunError) as caught:
        track(script, left_s=left_s).sample(wanted("fused"))
    assert script.settings[0].timeout_s == timeout_s
    assert caught.value.hasty is (left_s < 1e4)


def test_blocks_may_take_twice_what_their_own_steps_take(track):
    """With two loaders half of all steps are theirs, for which there is room but no patience."""
    script, toggle = Script(rounding), Toggle()
    track(script, left_s=0.0).blocks(wanted("fused"), toggle)
    (settings,) = script.settings
    steps = toggled_steps(toggle) + 1
    assert settings.steps == 2 * steps + 1
    assert settings.timeout_s == pytest.approx(2 * (COSTS.start_s + steps * COSTS.step_s))
