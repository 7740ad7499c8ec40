"""Numbers held against untouched runs, which are scripted instead of started."""

import random

import pytest

from pitstop.compare.pairs import Quality
from pitstop.compare.quantities import Quantity
from pitstop.core.errors import PitstopError
from pitstop.tune.runs.endings import Ending
from tune.scripted import Script, rounding, wanted


def random_data(asked):
    """Losses of batches, or masks, that every seed and every change draws anew."""
    draws = random.Random(f"{asked.seed} {asked.changes}")
    return [draws.uniform(0.9, 1.1) for _ in range(6)]


def test_a_change_that_only_rounds_is_fine_and_its_drift_is_told(track):
    found = track(Script(rounding)).check(wanted("fused"))
    assert found.refused is None
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
    assert "warns" not in track(fine).check(wanted("fused")).note


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


def test_untouched_runs_are_made_once(track):
    script = Script(rounding)
    ours = track(script)
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
