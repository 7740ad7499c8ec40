import math
from array import array
from dataclasses import replace
from statistics import fmean

import pytest

from pitstop.tune.guard.readings import Output, Readings
from pitstop.tune.guard.verdict import Untouched, guard

NULL = Readings(losses=(1.0, 0.8, 0.6, 0.5, 0.4, 0.3), batches=("a", "b", "c"))


def scaled(readings, *factors):
    losses = (loss * factor for loss, factor in zip(readings.losses, factors, strict=True))
    return replace(readings, losses=tuple(losses))


def drifting(share):
    """The null's losses, off by ever more, up to a share of them."""
    return scaled(NULL, *(1 + share * step / 6 for step in range(1, 7)))


def test_exact_means_equal_to_the_last_digit():
    assert guard("exact", NULL, Untouched(NULL)).ok
    found = guard("exact", scaled(NULL, 1, 1, 1 + 1e-15, 1, 1, 1), Untouched(NULL))
    assert not found.ok
    assert found.reason.startswith("loss 3 is ")
    assert found.reason.endswith("none allowed")


def test_a_script_that_does_not_repeat_itself_sets_its_own_measure():
    untouched = Untouched(NULL, again=(drifting(1e-3),))
    assert guard("exact", drifting(2e-3), untouched).ok
    assert not guard("exact", drifting(4e-3), untouched).ok


def test_a_script_that_does_not_repeat_itself_allows_a_third_at_most():
    untouched = Untouched(NULL, again=(scaled(NULL, *([3.0] * 6)),))
    assert guard("exact", scaled(NULL, *([1.2] * 6)), untouched).ok
    assert not guard("exact", scaled(NULL, *([2.0] * 6)), untouched).ok


def test_rounding_may_drift_three_times_as_far_as_moved_weights():
    untouched = Untouched(NULL, perturbed=(drifting(0.01),))
    within = guard("rounding", drifting(0.029), untouched)
    assert within.ok
    assert within.drift == pytest.approx(0.029, rel=0.05)
    assert within.tolerance == pytest.approx(0.03, rel=0.05)
    assert not guard("rounding", drifting(0.032), untouched).ok


def test_a_precision_that_makes_another_loss_of_it_allows_a_third_at_most():
    """The perturbed run is a thousand times off: three times that would allow anything."""
    untouched = Untouched(NULL, perturbed=(scaled(NULL, *([1000.0] * 6)),))
    found = guard("rounding", scaled(NULL, *([2.0] * 6)), untouched, "bfloat16")
    assert not found.ok
    assert found.tolerance == pytest.approx(0.3)
    assert guard("rounding", scaled(NULL, *([1.2] * 6)), untouched, "bfloat16").ok


def test_drift_that_comes_before_rounding_could_be_amplified_is_seen():
    late = scaled(NULL, *([1.0001] * 5), 1.5)
    early = scaled(NULL, 1.01, 1, 1, 1, 1, 1)
    found = guard("rounding", early, Untouched(NULL, perturbed=(late,)))
    assert not found.ok
    assert found.reason.startswith("loss 1 is 1.0 % off")


def test_the_floor_is_that_of_the_precision():
    nearly = scaled(NULL, *([1.003] * 6))
    assert guard("rounding", nearly, Untouched(NULL), "bfloat16").ok
    assert not guard("rounding", nearly, Untouched(NULL), "float32").ok


def test_gradient_norms_count_too():
    null = replace(NULL, gradient_norms=(1.0,) * 6)
    run = replace(NULL, gradient_norms=(1.0, 1.0, 1.3, 1.0, 1.0, 1.0))
    found = guard("rounding", run, Untouched(null))
    assert not found.ok
    assert found.reason.startswith("gradient norm 3")


def test_the_loss_of_each_optimizer_counts():
    """As of a generator, before an opponent that does not learn yet."""
    null = Readings(losses=(0.0,) * 6, earlier_losses=tuple((each,) for each in NULL.losses))
    spoilt = ((1.0,), (0.8,), (0.7,), (0.5,), (0.4,), (0.3,))
    found = guard("rounding", replace(null, earlier_losses=spoilt), Untouched(null))
    assert not found.ok
    assert found.reason.startswith("earlier loss 3 is 14 % off")
    near = tuple((1.000001 * each,) for (each,) in null.earlier_losses)
    found = guard("rounding", replace(null, earlier_losses=near), Untouched(null))
    assert found.ok
    assert found.reason.startswith("earlier loss at most 0.000100 % off")
    fewer = replace(null, earlier_losses=((), *null.earlier_losses[1:]))
    assert guard("exact", null, Untouched(fewer)).ok


@pytest.mark.parametrize("effect", ["exact", "rounding", "other-randomness", "changes-training"])
def test_what_is_newly_not_finite_is_never_let_through(effect):
    broken = replace(NULL, losses=(*NULL.losses[:5], None), broken=(6,))
    assert guard(effect, broken, Untouched(NULL)).reason == "the loss of step 6 is not finite"
    assert "not finite" not in guard(effect, broken, Untouched(broken)).reason
    before = replace(NULL, broken=(3,))
    assert "of step 6 is not finite" in guard(effect, broken, Untouched(before)).reason


def test_nothing_in_common_proves_nothing():
    assert not guard("rounding", Readings(), Untouched(NULL)).ok
    assert not guard("rounding", Readings(), Untouched(Readings())).ok


def test_equal_batches_must_give_equal_losses():
    assert guard("other-randomness", NULL, Untouched(NULL)).ok
    found = guard("other-randomness", drifting(0.5), Untouched(NULL))
    assert not found.ok
    assert found.needs_seeds


def test_other_batches_are_judged_by_the_mean_of_three_seeds():
    def runs(*means):
        return [replace(NULL, losses=(mean,) * 6, batches=(str(mean),)) for mean in means]

    null, *others = runs(1.0, 1.1, 0.9)
    untouched = Untouched(null, other_seeds=tuple(others))
    alone, *more = runs(1.05, 1.2, 0.98)
    assert guard("other-randomness", alone, Untouched(null)).needs_seeds
    assert guard("other-randomness", alone, untouched, other_seeds=more).ok
    worse, *more = runs(1.5, 1.7, 1.6)
    found = guard("other-randomness", worse, untouched, other_seeds=more)
    assert not found.ok
    assert not found.needs_seeds
    assert found.drift == pytest.approx(0.6 / 1.6)
    alike = Untouched(null, other_seeds=(null, null))
    found = guard("other-randomness", worse, alike, other_seeds=more)
    assert (found.ok, found.reason) == (
        False,
        "the batches differ, and seeds do not move the script's own",
    )


def test_of_other_batches_the_mean_of_each_loss_counts():
    """Those of a generator and of its opponent may be opposite, and cancel out."""

    def runs(size, name):
        return [
            Readings((-size * x,) * 6, ((size * x,),) * 6, batches=(f"{name} {x}",))
            for x in (1.0, 1.01, 0.99)
        ]

    null, near, far = runs(1.0, "a"), runs(1.001, "b")[::-1], runs(5.0, "c")
    untouched = Untouched(null[0], other_seeds=tuple(null[1:]))
    assert guard("other-randomness", near[0], untouched, other_seeds=near[1:]).ok
    assert not guard("other-randomness", far[0], untouched, other_seeds=far[1:]).ok


def of_seeds(*means, **also):
    return [replace(NULL, losses=(mean,) * 6, batches=(str(mean),), **also) for mean in means]


def over_seeds(ours, null, precision="float32"):
    untouched = Untouched(null[0], other_seeds=tuple(null[1:]))
    return guard("other-randomness", ours[0], untouched, precision, ours[1:])


def test_both_sides_of_a_seed_begin_with_the_same_weights():
    """Seeds part by 40 %: a change by which each is 5 % off would be lost among them."""
    null = of_seeds(1.0, 1.4, 0.9)
    assert over_seeds(of_seeds(1.01, 1.39, 0.905), null).ok
    found = over_seeds(of_seeds(1.05, 1.47, 0.945), null)
    assert not found.ok
    assert found.drift == pytest.approx(0.055 / 1.155)
    assert found.tolerance < 1e-4
    found = over_seeds(of_seeds(1.05, 1.46, 0.95), null)
    assert found.reason == "mean loss over 3 seeds 4.6 % apart, 3.5 % allowed by their spread"


def test_rounding_on_top_of_other_batches_is_no_drift():
    null, rounded = of_seeds(1.0, 1.4, 0.9), of_seeds(1.003, 1.4042, 0.9027)
    assert over_seeds(rounded, null, "bfloat16").ok
    assert not over_seeds(rounded, null).ok
    seldom_zero = of_seeds(1.38, 0.0, -0.89), of_seeds(1.4, 0.0, -0.9)
    assert over_seeds(*seldom_zero).ok


def test_seeds_that_hardly_part_allow_little():
    """However far those of the change part: it is noisier than the script."""
    null = of_seeds(1.0, 1.001, 0.999)
    assert over_seeds(of_seeds(1.003, 1.002, 1.001), null).ok
    assert not over_seeds(of_seeds(1.008, 1.006, 1.004), null).ok
    assert not over_seeds(of_seeds(1.1, 0.98, 0.97), null).ok


def test_what_breaks_with_another_seed_is_refused():
    null, ours = of_seeds(1.0, 1.4, 0.9), of_seeds(1.01, 1.39, 0.905)
    lost = replace(ours[1], losses=(None,) * 6)
    broken = [ours[0], replace(lost, broken=(1, 2)), ours[2]]
    assert over_seeds(broken, null).reason == "the loss of step 1 is not finite, with another seed"
    assert not over_seeds([ours[0], lost, ours[2]], null).ok
    assert over_seeds(ours, [null[0], replace(null[1], losses=(None,) * 6), null[2]]).drift is None


def test_what_learns_with_each_seed_must_learn_with_one_of_them():
    """A block that drop path leaves out in the first steps of one seed is no news."""
    null = of_seeds(1.0, 1.4, 0.9, learning=LEARNS.learning, learns=frozenset({(0, 3), (0, 8)}))
    ours = of_seeds(1.01, 1.39, 0.905, learning=LEARNS.learning, idle=frozenset({(0, 3)}))
    assert over_seeds(ours, null).reason == (
        "optimizer 1 no longer moves 1 of its parameters, with any of 3 seeds"
    )
    by_chance = [replace(ours[0], idle=frozenset({(0, 8)})), *ours[1:]]
    assert over_seeds(by_chance, null).ok
    seldom = [replace(null[0], learns=frozenset({(0, 8)})), *null[1:]]
    assert over_seeds(ours, seldom).ok
    stands = [replace(each, learning=(), idle=frozenset()) for each in ours]
    assert over_seeds(stands, null).reason == "optimizer 1 takes no step, with any of 3 seeds"
    assert over_seeds([stands[0], *by_chance[1:]], null).ok


def test_a_change_of_training_is_held_against_nothing_and_says_so():
    found = guard("changes-training", drifting(5), Untouched(NULL))
    assert found.ok
    assert "held against nothing" in found.reason


def image(*pixels):
    return Readings(outputs=(Output("Decoder", (1, 3, 16, 16), array("f", pixels).tobytes()),))


def test_without_losses_the_outputs_are_compared():
    null, near = image(0.0, 1.0, 0.5, 1.0), image(0.0, 1.001, 0.5, 1.0)
    found = guard("rounding", near, Untouched(null, perturbed=(near,)))
    assert found.ok
    assert found.reason.endswith("PSNR 66.0 dB")
    assert not guard("rounding", image(0.0, 1.01, 0.5, 1.0), Untouched(null, perturbed=(near,))).ok
    assert not guard("rounding", image(0.0, math.nan, 0.5, 1.0), Untouched(null)).ok


def test_what_marks_places_must_mark_the_same_ones_and_hides_nothing():
    lowest = -3.4e38
    for mark in (-math.inf, lowest, -65504.0):
        null = image(mark, 1.0, 0.5, mark)
        assert guard("exact", image(mark, 1.0, 0.5, mark), Untouched(null)).ok
        for wrong in ((mark, 0.0, 0.0, mark), (mark, 1.0, mark, mark), (math.nan,) * 4):
            assert not guard("rounding", image(*wrong), Untouched(null)).ok
    found = guard("rounding", image(math.nan), Untouched(image(-math.inf)))
    assert found.reason == "output 1 is not finite, or masked, in other places"


def test_outputs_of_another_shape_are_wrong_however_close():
    half = replace(image(1.0).outputs[0], shape=(1, 3, 8, 8))
    found = guard("rounding", Readings(outputs=(half,)), Untouched(image(1.0)))
    assert found.reason == "output 1 has the shape [1, 3, 8, 8], not [1, 3, 16, 16]"
    assert not guard("rounding", Readings(), Untouched(image(1.0))).ok


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("precision", ["float32", "tfloat32", "bfloat16"])
def test_every_weight_moves_whatever_its_type(dtype, precision):
    """One in half precision does not move by a unit of float32, and the null would be none."""
    torch = pytest.importorskip("torch")
    from pitstop.tune.inside.numbers import perturb

    layer = torch.nn.Linear(64, 64, dtype=getattr(torch, dtype))
    before = layer.weight.detach().clone()
    perturb(layer.parameters(), precision)
    moved = ((layer.weight.detach() - before) / before).abs().float()
    assert float((moved > 0).float().mean()) > 0.99  # some are too small to have a neighbour
    usual = float(moved.nanmedian())  # a weight of zero stays one
    assert usual <= 2.0**-6  # a unit of the coarsest is 2 to the -7 at most, rounded


@pytest.mark.parametrize(
    ("less", "reason"),
    [
        ({"calls": 63}, "its models are called 63 times instead of 125"),
        ({"lines": 1}, "it says 1 line instead of 52"),
        ({"calls": 121}, ""),  # adaptive solvers call a model as often as rounding has it
        ({"lines": 30}, ""),  # what is said by the clock is less where the script is faster
        ({"calls": None, "lines": None}, ""),
    ],
)
def test_a_script_that_does_less_is_another_one_whatever_its_losses(less, reason):
    """It may catch what fails, and go on with the next batch."""
    null = replace(NULL, calls=125, lines=52)
    run = replace(null, **less)
    for effect in ("exact", "rounding"):
        found = guard(effect, run, Untouched(null))
        assert (found.ok, found.reason if reason else "") == (not reason, reason)
    assert guard("other-randomness", run, Untouched(null)).ok  # workers are not heard


def test_a_weight_moves_by_so_many_units_and_by_no_more_than_one_of_its_own_where_that_is_coarser():
    torch = pytest.importorskip("torch")
    from pitstop.tune.inside.numbers import perturb

    for dtype, share in ((torch.float64, 2.0**-20), (torch.bfloat16, 2.0**-7)):
        weight = torch.ones(8, dtype=dtype)
        perturb([weight], "float32", units=8)
        assert set((weight - 1).abs().tolist()) <= {share, share / 2}  # below 1 units are half


def train(mode="plain", seed=0):
    """A small network trained for 12 steps, honestly or not, as the guard sees it."""
    torch = pytest.importorskip("torch")
    from pitstop.tune.inside.numbers import perturb

    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(seed)
    body = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GELU()) for _ in range(3)]
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *body, nn.Conv2d(16, 3, 3, padding=1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    if mode == "perturbed":
        perturb(model.parameters(), "bfloat16")
    losses = []
    for _ in range(12):
        clean = F.interpolate(torch.rand(4, 3, 8, 8), (32, 32), mode="bilinear")
        noisy = clean + 0.1 * torch.randn_like(clean)
        if mode == "half":
            noisy = F.interpolate(noisy, scale_factor=0.5)
        layers = [*model[:2], *model[3:]] if mode == "skip" else model
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "bf16"):
            made = noisy
            for layer in layers:
                made = layer(made)
        if mode == "half":
            made = F.interpolate(made, scale_factor=2.0)
        loss = (made.float() - clean).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert fmean(losses[-3:]) < losses[0]
    return Readings(losses=tuple(losses))


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_honest_bfloat16_passes_and_wrong_but_fast_changes_are_caught(seed):
    untouched = Untouched(train(seed=seed), perturbed=(train("perturbed", seed),))
    assert guard("rounding", train("bf16", seed), untouched, "bfloat16").ok
    for wrong in ("half", "skip"):
        assert not guard("rounding", train(wrong, seed), untouched, "bfloat16").ok


LEARNS = replace(NULL, learning=((2.0, 0.1), (1.8, 0.1)))


@pytest.mark.parametrize(
    ("learning", "ok"),
    [
        (((2.0, 0.1), (1.75, 0.1)), True),  # gradients are more sensitive than losses
        (((2.0, 0.1), (1.7, 0.1)), False),
        (((2.0, 0.1), (1.8, 0.0)), False),
        (((2.0, 0.1), (None, None)), True),  # a step that a gradient scaler skips
        (((None, None), (None, None)), False),
        ((), False),
    ],
)
def test_what_no_longer_learns_is_seen_where_losses_do_not_tell(learning, ok):
    found = guard("rounding", replace(LEARNS, learning=learning), Untouched(LEARNS))
    assert found.ok == ok
    if not ok:
        assert found.reason.startswith("optimizer")


def test_what_moved_must_move():
    null = replace(LEARNS, learns=frozenset({(0, 3), (0, 8)}))
    frozen = replace(null, idle=frozenset({(0, 3), (0, 7)}))  # of 7 nobody knows
    found = guard("rounding", frozen, Untouched(null))
    assert found.reason == "optimizer 1 no longer moves 1 of its parameters"
    skipped = replace(frozen, learning=((None, None), (1.8, 0.1)))
    assert guard("rounding", skipped, Untouched(null)).ok
    assert guard("changes-training", frozen, Untouched(null)).ok


def test_losses_tell_how_far_it_drifts_and_not_what_is_held_loosely():
    found = guard(
        "rounding", replace(LEARNS, learning=((2.05, 0.1), (1.8, 0.1))), Untouched(LEARNS)
    )
    assert (found.ok, found.drift) == (True, 0.0)


def test_every_optimizer_must_step():
    both = replace(NULL, learning=((2.0, 0.1, 3.0, 0.2),))
    found = guard("rounding", replace(NULL, learning=((2.0, 0.1),)), Untouched(both))
    assert found.reason == "optimizer 2 takes no step"
    assert guard("rounding", both, Untouched(both)).ok
