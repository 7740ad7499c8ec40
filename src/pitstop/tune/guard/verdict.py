"""Guard: whether the numbers of a changed run are still those of the untouched one.

**Drift** is the largest relative difference of two losses of the same step, or of two gradient
norms, or, where there are no losses, of what the model returned for the same inputs. A step may
have several losses, such as that of a generator and of its opponent, and each of them counts. In
the first steps so do the gradients of each optimizer and how far it moves its weights, though less
strictly, and what moved must move: losses may not tell whether all of a model learns.

**Tolerance.** What rounds once in the precision that the change computes in is fine. Training
amplifies rounding, every script in its own way, so for what drifts farther that is measured: in
another untouched run each weight is moved by one unit in the last place of that precision, and
three times the drift of that run is allowed. One such run may drift little by luck: what is up to
ten times that far off is held against two more, in float32 moved by eight units, as sums in another
order part by as much. What counts for a step is the drift up to it: the first steps, before
anything is amplified, are held to little. A single step may agree by luck, so the first five count
as one. Where a unit of that precision makes another loss of it, as with a
large constant that half precision cannot hold, or where the script does not repeat itself, no more
than a third is allowed all the same.

**Other randomness.** Where all batches are equal the losses must agree as well. Else the dataset
draws random numbers, and only the mean loss over three seeds can be compared. It may be twice as
far off as the seeds of the untouched script are from each other. Those begin with other weights,
whereas both sides of one seed begin with the same: it may be no more than three times as far off as
these differences are from each other. With normal noise a change that does no harm is refused 5
times of 100 at most. What learns with each seed must learn with one of them, and nothing may break.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pitstop.core.units import precise_percent
from pitstop.tune.change import Effect
from pitstop.tune.guard.drift import (
    SMALL,
    apart,
    earlier_apart,
    learning_apart,
    less_done,
    newly_broken,
    other_shapes,
    outputs_apart,
    quality,
    series,
    stopped,
)
from pitstop.tune.guard.readings import Readings

TIMES = 3.0  # of the perturbed run's drift: one run's drift is itself good to a factor of two
NEARLY = 10.0  # times what is allowed: two ways to move the weights part by up to 50 times
FIRST = 5  # steps that share one tolerance: of five, hardly all agree by luck
ANOTHER = 0.9  # of the larger one, as where a loss is a million times what it was
LARGEST = 0.3  # a number that is a third off is another one, whatever became of the perturbed run
SEEDS = 3  # the fewest that have a spread
SPREADS = 2.0  # of three normal seeds: a mean of three others lies farther off 4 times of 100
PAIRED = 3.0  # spreads of three normal differences: their mean is larger once of 100
FLOORS = {
    "float32": 1e-5,  # sums over a million numbers in another order part by about this
    "tfloat32": 2.0**-10,  # one unit in the last of its 10 bits
    "float16": 2.0**-10,  # likewise
    "bfloat16": 2.0**-8,  # half a unit in the last of its 7 bits
}

LEAST = {"optimizer step": 0.05}  # gradients may be a hundred times as sensitive as their loss
KINDS: dict[str, Callable[[Readings, Readings], list[float]]] = {
    "loss": lambda run, null: apart(run.losses, null.losses),
    "earlier loss": earlier_apart,
    "optimizer step": learning_apart,
    "gradient norm": lambda run, null: apart(run.gradient_norms, null.gradient_norms),
    "output": outputs_apart,
}


@dataclass(frozen=True, slots=True)
class Untouched:
    """Runs of the script as it is, which the changed one is held against."""

    null: Readings
    again: tuple[Readings, ...] = ()  # with the same seed: whether the script repeats itself
    perturbed: tuple[Readings, ...] = ()  # same seed, weights moved in the change's precision
    other_seeds: tuple[Readings, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded:
    """The verdict on the numbers of a changed run, and why."""

    ok: bool
    drift: float | None = None  # largest relative difference
    tolerance: float | None = None  # what was allowed where the two came closest, or parted
    reason: str = ""
    needs_seeds: bool = False  # not settled: run both with two more seeds
    nearly: bool = False  # it fails by so little that another perturbed run might have allowed it
    quantity: str = ""  # what was off, where that is a number of a step
    step: int | None = None  # from 1


def guard(
    effect: Effect,
    run: Readings,
    untouched: Untouched,
    precision: str = "float32",
    other_seeds: Sequence[Readings] = (),
) -> Guarded:
    """Hold the numbers of a changed run against those of the untouched script."""
    if broken := newly_broken(run, untouched.null):
        return Guarded(False, reason=broken)
    if effect == "changes-training":
        return Guarded(True, reason="changes what is learned: held against nothing")
    if effect == "other-randomness":
        return _other_randomness(run, untouched, other_seeds, _floor(precision))
    return _within(run, untouched, effect, precision)


def _other_randomness(
    run: Readings, untouched: Untouched, other_seeds: Sequence[Readings], floor: float
) -> Guarded:
    if _same_batches(run, untouched.null):
        found = _within(run, untouched, "rounding", "float32", whole=False)
        if found.ok:
            return replace(found, reason=f"equal batches, {found.reason}")
    else:
        found = Guarded(False, reason="the batches differ")
    nulls, runs = (untouched.null, *untouched.other_seeds), (run, *other_seeds)
    theirs, ours = _means(nulls), _means(runs)
    if min(len(nulls), len(runs)) < SEEDS:
        return replace(found, needs_seeds=bool(theirs and ours))
    broken = (newly_broken(*both) for both in zip(runs, nulls, strict=True))
    if wrong := next(filter(None, broken), ""):
        return Guarded(False, reason=f"{wrong}, with another seed")
    if wrong := stopped(runs, nulls):
        return Guarded(False, reason=f"{wrong}, with any of {SEEDS} seeds")
    if not theirs or theirs.keys() - ours.keys():
        return Guarded(False, reason=f"{found.reason}, and a loss is not there with each seed")
    verdicts = [_of_seeds(theirs[each], ours[each], floor, found.reason) for each in theirs]
    return max(verdicts, key=lambda each: (not each.ok, each.drift or 0.0))


def _of_seeds(null: Sequence[float], ours: Sequence[float], floor: float, before: str) -> Guarded:
    """Hold the mean losses of some seeds against those of the untouched script."""
    size = max(abs(fmean(null)), abs(fmean(ours))) or 1.0
    drift = abs(fmean(ours) - fmean(null)) / size
    pairs = zip(null, ours, strict=True)  # of one seed each
    differ = [(b - a) / max(abs(a), abs(b), SMALL * size) for a, b in pairs]
    allowed = max(min(SPREADS * _range(null) / size, PAIRED * _range(differ)), floor)
    if drift > allowed and min(null) == max(null):
        return Guarded(False, reason=f"{before}, and seeds do not move the script's own")
    return Guarded(
        drift <= allowed,
        drift,
        allowed,
        f"mean loss over {len(ours)} seeds {precise_percent(drift)} apart, "
        f"{precise_percent(allowed)} allowed by their spread",
    )


def _range(numbers: Sequence[float]) -> float:
    return max(numbers) - min(numbers)


def _within(
    run: Readings, untouched: Untouched, effect: str, precision: str, whole: bool = True
) -> Guarded:
    """Whether the run stays as close as rounding, or as the script to itself, allows.

    And is it the ``whole`` of it? What a worker says is not heard.
    """
    null = untouched.null
    less = less_done(run, null) if whole else ""
    if wrong := other_shapes(run, null) or stopped([run], [null]) or less:
        return Guarded(False, reason=wrong)
    exact = effect == "exact"
    found: Guarded | None = None
    for name, ours, others in _series(run, untouched, exact):
        repeats = exact and not any(map(any, others))
        floor = 0.0 if repeats else max(_floor(precision), LEAST.get(name, 0.0))
        verdict = _judge(name, ours, others, floor)
        if not verdict.ok:
            return verdict
        tells = name not in LEAST and (verdict.drift or 0.0) > (found.drift or 0.0 if found else 0)
        if found is None or tells:
            found = verdict
    if found is None:
        return Guarded(False, reason="no loss and no output in common: nothing can be proved")
    return replace(found, reason=f"{found.reason}{quality(run, untouched.null)}")


def _series(
    run: Readings, untouched: Untouched, exact: bool
) -> Iterator[tuple[str, list[float], list[list[float]]]]:
    """Each kind of number: how far it drifts in the run, and in the runs that set the measure."""
    null = untouched.null
    for name, drifts_of in KINDS.items():
        if ours := drifts_of(run, null):
            again = [drifts_of(each, null) for each in untouched.again]
            moved = [drifts_of(each, null) for each in (() if exact else untouched.perturbed)]
            others = [*again, *moved]
            yield name, ours, [[min(each, LARGEST / TIMES) for each in one] for one in others]


def _judge(name: str, ours: list[float], others: list[list[float]], floor: float) -> Guarded:
    """Hold each step's drift against what is allowed up to that step."""
    allowed = [
        max([floor, *(TIMES * max(each[: max(place, FIRST)], default=0.0) for each in others)])
        for place in range(1, len(ours) + 1)
    ]
    beyond = [place for place, drift in enumerate(ours) if drift > allowed[place]]
    worst = beyond[0] if beyond else max(range(len(ours)), key=ours.__getitem__, default=0)
    drift, tolerance = ours[worst], allowed[worst]
    if beyond:
        off = "another number altogether" if drift > ANOTHER else f"{precise_percent(drift)} off"
        said = f"{name} {worst + 1} is {off}"
        nearly = all(ours[place] <= NEARLY * allowed[place] for place in beyond)
        why = f"{said}, {_by(tolerance)}"
        return Guarded(False, drift, tolerance, why, nearly=nearly, quantity=name, step=worst + 1)
    said = f"{name} at most {precise_percent(drift)} off" if drift else f"every {name} equal"
    return Guarded(True, drift, tolerance, f"{said}, {_by(tolerance)}" if drift else said)


def _by(tolerance: float) -> str:
    return f"{precise_percent(tolerance)} allowed" if tolerance else "none allowed"


def other_batches(run: Readings, null: Readings) -> bool:
    """Whether some batch is known to be another one."""
    return any(a != b for a, b in zip(run.batches, null.batches, strict=False))


def _same_batches(run: Readings, null: Readings) -> bool:
    return bool(run.batches and null.batches) and not other_batches(run, null)


def _means(runs: Sequence[Readings]) -> dict[int, list[float]]:
    """The mean of each loss of a step that all runs have: together, opposite ones would cancel."""
    columns = enumerate(zip(*map(series, runs), strict=False))
    known = {x: [[y for y in losses if y is not None] for losses in of] for x, of in columns}
    return {x: [fmean(losses) for losses in of] for x, of in known.items() if all(of)}


def _floor(precision: str) -> float:
    return FLOORS.get(precision, FLOORS["float32"])
