"""The track of fresh processes, with runs that are scripted instead of started."""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pitstop.compare.pairs import Quality
from pitstop.compare.quantities import Quantity, Sample
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Loader, Step
from pitstop.tune import pace, plan, processes
from pitstop.tune.budget import toggled_steps
from pitstop.tune.change import Change
from pitstop.tune.endings import Ending
from pitstop.tune.plan import Block, Outcome, Toggle, Wanted
from pitstop.tune.processes import Course, Processes
from pitstop.tune.readings import Readings
from pitstop.tune.track import RunError
from tune.simulation import COSTS


def change(name, effect, precision="float32", environment=None):
    return Change(name, effect, ("time",), "", lambda _: None, precision, environment=environment)


CHANGES = {
    each.name: each
    for each in (
        change("exact", "exact"),
        change("fused", "rounding"),
        change("bf16", "rounding", "bfloat16"),
        change("loader", "other-randomness"),
        change("allocator", "exact", environment=lambda _: {"ALLOC": "x"}),
    )
}


ENDED = Ending(0)


@dataclass
class Script:
    """Losses of a run by what is asked of it; what was asked is kept."""

    losses: object  # callable: plan -> losses
    ending: Ending = ENDED
    steps: int = 6
    psnr: object = lambda _: 30.0
    declined: str = ""
    batch: object = lambda _: "same"
    effect: str = ""  # of the change on this script's numbers
    first_ms: float = 100.0  # the first step
    blocks: list = field(default_factory=list)
    plans: list = field(default_factory=list)
    settings: list = field(default_factory=list)

    def run_trial(self, words, wanted, folder, settings):
        assert wanted.folder == ""
        self.plans.append(wanted)
        self.settings.append(settings)
        folder.mkdir(parents=True)
        if self.blocks:
            plan.write(folder, plan.BLOCKS, self.blocks)
        return _Run(self, wanted)


class _Run:
    steps_ms = ()

    def __init__(self, script, wanted):
        losses = tuple(script.losses(wanted))
        steps = (Step(script.first_ms), *[Step(100.0)] * (script.steps - 1)) * bool(script.steps)
        steps = tuple(map(Step, self.steps_ms)) or steps
        self.evidence = Evidence(steps=steps, warmup_steps=min(3, script.steps))
        self.outcomes = [
            Outcome(each.name, {}, 1, script.declined, script.effect) for each in wanted.changes
        ]
        self.readings = Readings(losses, batches=(script.batch(wanted),) * len(losses))
        self.recording = Sample(self.evidence, 4, (f"psnr={script.psnr(wanted)}",))
        self.ending = script.ending(wanted) if callable(script.ending) else script.ending
        self.peak_bytes = 2**30


@pytest.fixture
def track(tmp_path, monkeypatch):
    def build(script, metrics=(), left_s=600.0, running=lambda _: None, **options):
        monkeypatch.setattr(processes, "run_trial", script.run_trial)
        monkeypatch.setattr(processes, "sample", lambda recording: recording)
        ends_s = 400.0 + left_s
        course = Course(("python", "t.py"), tmp_path, CHANGES, COSTS, ends_s, metrics, **options)
        return Processes(course, running, clock=lambda: 400.0)

    return build


def wanted(*names):
    return tuple(Wanted(name) for name in names)


def rounding(asked):
    """Moved weights and changes that round part by a little, bfloat16 by more."""
    size = {"float32": 1e-4, "bfloat16": 1e-2}.get(asked.perturb, 0.0)
    names = {each.name for each in asked.changes}
    size += (1e-4 if "fused" in names else 0) + (1e-2 if "bf16" in names else 0)
    return [1.0 + size * step for step in range(6)]


def test_a_change_that_only_rounds_is_fine_and_its_drift_is_told(track):
    found = track(Script(rounding)).check(wanted("fused"))
    assert (found.refused, found.batch) == (None, 4)
    assert found.drift == pytest.approx(5e-4, rel=0.01)
    assert found.tolerance == pytest.approx(1.5e-3, rel=0.01)
    assert (found.step_ms, found.peak_bytes) == (100.0, 2**30)


def test_the_noise_of_single_steps_is_told_and_drift_is_none(track, monkeypatch):
    monkeypatch.setattr(_Run, "steps_ms", [100, 100, 100, *(100 * 1.01**each for each in range(9))])
    assert track(Script(rounding)).check(()).noise == pytest.approx(0.009, rel=0.05)
    monkeypatch.setattr(_Run, "steps_ms", [900, 100, 100, *[100, 120] * 5])
    assert track(Script(rounding)).check(()).noise == pytest.approx(0.16, rel=0.05)


def test_weights_are_moved_in_the_coarsest_precision_of_all_changes(track):
    script = Script(rounding)
    assert track(script).check(wanted("bf16", "fused")).refused is None
    assert {each.perturb for each in script.plans} == {None, "bfloat16"}


def test_a_script_that_computes_in_half_precision_itself_is_moved_in_that(track):
    """Under its own autocast a float32 unit moves nothing, and a compiler rounds elsewhere."""

    def compiled(asked):
        return [1.0 + 8e-3 * bool(asked.changes) + 1e-2 * (asked.perturb == "bfloat16")] * 6

    assert track(Script(compiled)).check(wanted("fused")).refused == "drifted"
    script = Script(compiled)
    assert track(script, precision="bfloat16").check(wanted("fused")).refused is None
    assert {each.perturb for each in script.plans} == {None, "bfloat16"}


def test_a_near_miss_is_held_against_more_moved_runs(track):
    """Moved one way the script hardly drifts, moved another way it does: training is chaotic."""

    def chaotic(asked, ours):
        lucky = 1e-4 if asked.signs == 1 else 4e-4
        size = ours if asked.changes else lucky if asked.perturb else 0.0
        return [1.0 + size * step for step in range(6)]

    script = Script(lambda asked: chaotic(asked, 5e-4))
    assert track(script).check(wanted("fused")).refused is None
    moved = [each for each in script.plans if each.perturb]
    assert [(each.signs, each.units) for each in moved] == [(1, 1), (2, 8), (3, 8)]
    script = Script(lambda asked: chaotic(asked, 9e-3))
    assert track(script).check(wanted("fused")).refused == "drifted"
    assert [each.signs for each in script.plans if each.perturb] == [1]  # no near miss


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


def test_a_script_that_falls_back_under_a_change_tells_why_it_has_drifted(track):
    def ending(asked):
        always = f"train.py:3 warns: seed {len(asked.changes)}"
        new = ["decoder.py:71 warns: kernel failed, using the fallback"] if asked.changes else []
        return Ending(0, warnings=(always, *new))

    script = Script(lambda asked: [2.0 if asked.changes else 1.0] * 6, ending)
    found = track(script).check(wanted("fused"))
    assert found.refused == "drifted"
    assert found.note.endswith(" allowed; decoder.py:71 warns: kernel failed, using the fallback")
    fine = Script(lambda _: [1.0] * 6, ending)
    assert track(fine).check(wanted("fused")).note == ""


def test_a_wrong_but_fast_change_has_drifted(track):
    def wrong(asked):
        return [2.0 if asked.changes else each for each in rounding(asked)]

    found = track(Script(wrong)).check(wanted("fused"))
    assert found.refused == "drifted"
    assert "off" in found.note


def test_an_exact_change_must_be_exact(track):
    def nearly(asked):
        return [1.0 + (1e-7 if asked.changes else 0.0)] * 6

    assert track(Script(nearly)).check(wanted("exact")).refused == "drifted"
    assert track(Script(nearly)).check(wanted("exact", "fused")).refused is None


def test_a_loader_beside_bf16_is_held_to_what_bf16_may_do(track):
    script = Script(rounding)
    assert track(script).check(wanted("loader", "bf16")).refused is None
    assert {each.seed for each in script.plans} == {0}  # no other seeds were needed


def test_a_loader_with_other_batches_is_judged_by_the_mean_over_seeds(track):
    def random_data(asked):
        draws = random.Random(f"{asked.seed} {asked.changes}")
        return [draws.uniform(0.9, 1.1) for _ in range(6)]

    script = Script(random_data)
    ours = track(script)
    assert ours.check(wanted("loader")).needs_seeds
    assert {each.seed for each in script.plans} == {0}  # others where it is faster
    before = len(script.plans)
    found = ours.over_seeds(wanted("loader"))
    assert [each.seed for each in script.plans[before:]] == [1, 2, 1, 2]
    assert found.refused is None
    assert not found.needs_seeds
    assert found.tolerance > 0
    resumed = track(script)
    before = len(script.plans)
    assert resumed.over_seeds(wanted("loader")) == found  # its own numbers are lost, and made again
    assert [each.seed for each in script.plans[before:]] == [0, 1, 2, 1, 2, 0]


def test_where_batches_differ_rounding_tells_nothing_and_is_not_asked(track):
    def random_data(asked):
        draws = random.Random(f"{asked.seed} {asked.changes}")
        return [draws.uniform(0.9, 1.1) for _ in range(6)]

    for batch, moved in ((lambda asked: str(asked.changes), False), (lambda _: "same", True)):
        script = Script(random_data, batch=batch)
        assert track(script).check(wanted("loader")).needs_seeds
        assert any(each.perturb for each in script.plans) == moved
    named = Script(rounding, batch=lambda asked: str(asked.changes))  # by the time of day, say
    assert track(named).check(wanted("loader")).refused is None


def test_what_learns_less_over_seeds_has_drifted(track):
    def less(asked):
        draws = random.Random(f"{asked.seed} {asked.changes}")
        return [draws.uniform(0.9, 1.1) + 0.5 * bool(asked.changes) for _ in range(6)]

    ours = track(Script(less))
    assert ours.check(wanted("loader")).needs_seeds
    found = ours.over_seeds(wanted("loader"))
    assert found.refused == "drifted"
    assert "mean loss over 3 seeds" in found.note


def test_a_change_that_makes_dropout_fall_elsewhere_is_judged_by_the_mean_over_seeds(track):
    def other_masks(asked):
        draws = random.Random(f"{asked.seed} {asked.changes}")
        return [draws.uniform(0.9, 1.1) for _ in range(6)]

    assert track(Script(other_masks)).check(wanted("fused")).refused == "drifted"
    script = Script(other_masks, effect="other-randomness")
    ours = track(script)
    assert ours.check(wanted("fused")).needs_seeds
    assert ours.over_seeds(wanted("fused")).refused is None
    assert {each.seed for each in script.plans} == {0, 1, 2}


def test_what_comes_after_other_batches_is_held_against_the_run_before_it(track):
    """The mean over seeds would let a network that learns nothing pass."""

    def random_data(asked):
        kept = [each.name for each in asked.changes if each.name == "loader"]
        draws = random.Random(f"{asked.seed} {kept}")
        size = rounding(asked)
        return [draws.uniform(0.5, 1.5) * each for each in size]

    script = Script(random_data)
    ours = track(script)
    assert ours.check(wanted("loader")).needs_seeds
    assert ours.over_seeds(wanted("loader")).refused is None
    runs = len(script.plans)
    assert ours.check(wanted("loader", "fused")).refused is None
    assert {each.seed for each in script.plans[runs:]} == {0}
    spoilt = Script(
        lambda asked: [x * (1 + 0.02 * ("exact" in str(asked))) for x in random_data(asked)]
    )
    ours = track(spoilt)
    assert ours.check(wanted("loader")).needs_seeds
    assert ours.over_seeds(wanted("loader")).refused is None
    assert ours.check(wanted("loader", "exact")).refused == "drifted"
    assert track(spoilt).check(wanted("loader", "exact")).refused == "drifted"  # when resumed


def test_what_the_first_steps_take_beyond_the_usual_is_told(track):
    assert track(Script(rounding, first_ms=34_100.0)).check(wanted("fused")).slow_s == 34.0
    assert track(Script(rounding)).check(wanted("fused")).slow_s == 0.0


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


def test_untouched_runs_are_made_once(track):
    script = Script(rounding)
    ours = track(script)
    ours.check(())
    ours.check(wanted("fused"))
    ours.check(wanted("fused"))
    plain = [each.perturb for each in script.plans if not each.changes]
    assert plain == [None, None, "float32"]


def test_runs_with_moved_weights_are_made_for_what_drifts_alone(track):
    """An exact change, one that rounds once, and one that spoils the losses: none needs them."""

    def losses(asked):
        names = {each.name for each in asked.changes}
        return [] if "bf16" in names else [1.0 + 1e-6 * ("fused" in names)] * 6

    script = Script(losses)
    ours = track(script)
    for name in ("exact", "fused", "loader"):
        assert ours.check(wanted(name)).refused is None
    assert len(script.plans) == 4  # a resumed search has no untouched run but its first one
    assert ours.check(wanted("bf16")).refused == "drifted"
    assert not any(each.perturb for each in script.plans)


def test_a_metric_is_held_against_three_untouched_runs(track):
    def psnr(asked):
        return 29.0 if asked.changes or asked.perturb else 30.0

    script = Script(lambda _: [1.0] * 6, psnr=psnr)
    assert track(script, (PSNR,)).check(wanted("exact")).refused is None
    assert [each.perturb for each in script.plans[1:]] == [None, None, "float32"]


def test_the_null_says_how_far_the_script_parts_from_itself(track):
    note = track(Script(rounding)).check(()).note
    assert note == "every loss equal; step times 0 % apart"


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


PSNR = Quantity(
    Quality("psnr", "", higher_is_better=True),
    lambda seen: float(seen.lines[0].partition("=")[2]) if seen.lines[0] != "psnr=" else None,
)


def test_a_metric_of_the_users_own_must_not_become_worse(track):
    def psnr(asked):
        return 29.0 if asked.changes else 30.0

    found = track(Script(rounding, psnr=psnr), (PSNR,)).check(wanted("fused"))
    assert (found.refused, found.note) == ("drifted", "psnr 29 instead of 30, -3.3 %")
    fine = track(Script(rounding, psnr=lambda each: 29.9 if each.changes else 30.0), (PSNR,))
    assert fine.check(wanted("fused")).refused is None


def test_a_metric_that_is_never_printed_is_said_at_once(track):
    with pytest.raises(PitstopError, match=r"no number for psnr was printed in \d+ steps: "):
        track(Script(rounding, psnr=lambda _: ""), (PSNR,)).check(())


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
    class Declines(_Run):
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


@pytest.mark.parametrize(
    ("untouched", "ours", "refused"),
    [((0.0, 0.0), 0.0, None), ((0.0, 0.5), 0.25, None), ((0.5, 0.5), 0.0, "drifted")],
)
def test_a_metric_may_be_none_at_all(track, untouched, ours, refused):
    def accuracy(asked):
        return ours if asked.changes else next(plain, untouched[0])

    plain = iter(untouched)
    metric = Quantity(
        Quality("psnr", "", higher_is_better=True),
        lambda seen: float(seen.lines[0].partition("=")[2]),
    )
    script = Script(rounding, psnr=accuracy)
    asked = track(script, metrics=(metric,))
    asked.check(())
    assert asked.check(wanted("fused")).refused == refused
