"""Numbers held against untouched runs, which are scripted instead of started."""

import random

import pytest

from pitstop.compare.pairs import Quality
from pitstop.compare.quantities import Quantity
from pitstop.core.errors import PitstopError
from pitstop.tune.endings import Ending
from tune.scripted import Script, rounding, wanted


def random_data(asked):
    """Losses of batches, or masks, that every seed and every change draws anew."""
    draws = random.Random(f"{asked.seed} {asked.changes}")
    return [draws.uniform(0.9, 1.1) for _ in range(6)]


def test_a_change_that_only_rounds_is_fine_and_its_drift_is_told(track):
    found = track(Script(rounding)).check(wanted("fused"))
    assert (found.refused, found.batch) == (None, 4)
    assert found.drift == pytest.approx(5e-4, rel=0.01)
    assert found.tolerance == pytest.approx(1.5e-3, rel=0.01)
    assert (found.step_ms, found.peak_bytes) == (100.0, 2**30)


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
    assert track(Script(random_data)).check(wanted("fused")).refused == "drifted"
    script = Script(random_data, effect="other-randomness")
    ours = track(script)
    assert ours.check(wanted("fused")).needs_seeds
    assert ours.over_seeds(wanted("fused")).refused is None
    assert {each.seed for each in script.plans} == {0, 1, 2}


def test_what_comes_after_other_batches_is_held_against_the_run_before_it(track):
    """The mean over seeds would let a network that learns nothing pass."""

    def loader_data(asked):
        kept = [each.name for each in asked.changes if each.name == "loader"]
        draws = random.Random(f"{asked.seed} {kept}")
        size = rounding(asked)
        return [draws.uniform(0.5, 1.5) * each for each in size]

    script = Script(loader_data)
    ours = track(script)
    assert ours.check(wanted("loader")).needs_seeds
    assert ours.over_seeds(wanted("loader")).refused is None
    runs = len(script.plans)
    assert ours.check(wanted("loader", "fused")).refused is None
    assert {each.seed for each in script.plans[runs:]} == {0}
    spoilt = Script(
        lambda asked: [x * (1 + 0.02 * ("exact" in str(asked))) for x in loader_data(asked)]
    )
    ours = track(spoilt)
    assert ours.check(wanted("loader")).needs_seeds
    assert ours.over_seeds(wanted("loader")).refused is None
    assert ours.check(wanted("loader", "exact")).refused == "drifted"
    assert track(spoilt).check(wanted("loader", "exact")).refused == "drifted"  # when resumed


def test_what_is_open_is_never_taken_for_kept(track):
    """Of a group, one draws otherwise and spoils all: alone it was no gain, and no seed was run."""

    def spoilt(asked):
        names = [each.name for each in asked.changes]
        draws = random.Random(f"{asked.seed} {'loader' in names} {'exact' in names}")
        wrong = 5.0 if "exact" in names else 1.0
        return [wrong * draws.uniform(0.5, 1.5) * each for each in rounding(asked)]

    script = Script(spoilt, effect=lambda name: "other-randomness" if name == "exact" else "")
    ours = track(script)
    assert ours.check(wanted("loader")).needs_seeds
    assert ours.over_seeds(wanted("loader")).refused is None
    assert ours.check(wanted("loader", "exact")).needs_seeds
    for again in (ours, track(script)):  # when resumed
        assert again.check(wanted("loader", "exact", "fused"), new=2).needs_seeds
        assert again.over_seeds(wanted("loader", "exact", "fused")).refused == "drifted"
        assert again.check(wanted("loader", "fused")).refused is None


def test_a_search_that_is_resumed_holds_what_comes_after_other_draws_as_strictly(track):
    def losses(asked):
        names = [each.name for each in asked.changes]
        draws = random.Random(f"{asked.seed} {'bf16' in names}")
        wrong = 1.02 if "exact" in names else 1.0
        return [wrong * draws.uniform(0.5, 1.5) for _ in range(6)]

    script = Script(losses, effect=lambda name: "other-randomness" if name == "bf16" else "")
    ours = track(script)
    assert ours.check(wanted("bf16")).needs_seeds
    assert ours.over_seeds(wanted("bf16")).refused is None
    runs = len(script.plans)
    assert ours.check(wanted("bf16", "exact")).refused == "drifted"
    assert len(script.plans) == runs + 2  # itself, and what was kept once more
    assert track(script).check(wanted("bf16", "exact")).refused == "drifted"


def test_a_metric_that_becomes_worse_is_seen_over_seeds_too(track):
    for psnr, refused in ((29.0, "drifted"), (30.0, None)):
        script = Script(random_data, psnr=lambda asked, ours=psnr: ours if asked.changes else 30.0)
        ours = track(script, (PSNR,))
        assert ours.check(wanted("loader")).needs_seeds
        assert ours.over_seeds(wanted("loader")).refused == refused


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
