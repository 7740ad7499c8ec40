"""Proof: both trees laid out, the numbers held against each other, then the time in pairs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pitstop.compare import pairs
from pitstop.compare.pairs import FEWEST, Pairs, looks_within
from pitstop.compare.quantities import Quantity, Sample
from pitstop.core.units import minutes
from pitstop.prove.git import SHORT, repository
from pitstop.prove.numbers import compare_numbers
from pitstop.prove.sides import EDIT, Sides, both
from pitstop.prove.story import Proof
from pitstop.prove.trees import Trees, check_script, lay_out
from pitstop.prove.verdict import judged
from pitstop.tune.change import Goal
from pitstop.tune.checked import RunError
from pitstop.tune.first_run import STEPS, check_run, costs_of
from pitstop.tune.plan import Plan
from pitstop.tune.ruled_out import own_precision
from pitstop.tune.runs import costs
from pitstop.tune.runs.costs import WARMUP, Costs
from pitstop.tune.runs.fresh import Course
from pitstop.tune.runs.machine_lock import clock
from pitstop.tune.runs.trials import COMPILED, Settings, TrialRun, run_trial
from pitstop.tune.sandbox import folders
from pitstop.tune.sandbox.copied_tree import Tree
from pitstop.tune.screen import Screen

NUMBERS_RUNS = 2  # fresh runs that the numbers take at least


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be proved of which command."""

    words: tuple[str, ...]  # the whole command line, Python included
    base: str = "HEAD"
    patch: Path | None = None
    goal: Goal = "time"
    metrics: tuple[Quantity, ...] = ()
    precision: str = ""  # what may round; empty: what the base computes in
    steps: int | None = None
    budget_s: float = 300.0
    in_place: bool = False


def prove(asked: Asked, screen: Screen) -> Proof:
    """All of it, started in the current folder."""
    ends_s = clock() + asked.budget_s
    screen.begin(ends_s)
    found = repository(Path.cwd())
    with folders.temporary(folders.SEARCH) as place:
        screen.doing("the two trees")
        trees = lay_out(found, asked.base, asked.patch, Path.cwd(), place.resolve())
        check_script(trees.base, trees.base.words(asked.words), trees.commit)
        try:
            sides, precision = _sides(asked, trees, place / "runs", ends_s, screen)
            return _proved(asked, trees, sides, precision, screen)
        except KeyboardInterrupt:
            return Proof(trees, interrupted=True)


def _sides(
    asked: Asked, trees: Trees, place: Path, ends_s: float, screen: Screen
) -> tuple[Sides, str]:
    """Both sides, once the base has run and told what a run takes."""
    screen.doing("a first run of the base")
    name = f"the base revision {trees.commit[:SHORT]}"
    first = _first_run(asked, trees.base, place, ends_s - clock())
    check_run(first, name)
    base = Course(
        trees.base.words(asked.words),
        place,
        {},
        _affordable(asked, first, ends_s - clock()),
        ends_s,
        asked.metrics,
        asked.in_place,
        step_ends=(first.evidence.step_kind, first.evidence.step_events),
        compiled=place / COMPILED,
        about=first.about,
        tree=trees.base,
        name="the base",
    )
    words = trees.edit.words(asked.words)
    edit = replace(base, words=words, tree=trees.edit, name="the edit", folder=place / "edit")
    precision = asked.precision or own_precision(first.evidence)
    return both(base, edit, screen.running), precision


def _first_run(asked: Asked, tree: Tree, place: Path, left_s: float) -> TrialRun:
    settings = Settings(
        max(STEPS, asked.steps or 0),
        WARMUP,
        timeout_s=left_s / 2,
        in_place=asked.in_place,
        compiled=place / COMPILED,
        tree=tree,
    )
    return run_trial(tree.words(asked.words), Plan(), place / "first", settings)


def _affordable(asked: Asked, first: TrialRun, left_s: float) -> Costs:
    """Runs of the usual length, or shorter ones where the budget asks for them."""
    found = costs_of(first, asked.steps)
    takes_s = found.pairs_s(FEWEST) + NUMBERS_RUNS * found.run_s
    if not asked.steps and takes_s > left_s:
        return replace(found, steps=WARMUP + costs.STEPS[0])
    return found


def _proved(asked: Asked, trees: Trees, sides: Sides, precision: str, screen: Screen) -> Proof:
    screen.doing("the numbers of both")
    try:
        numbers = compare_numbers(sides, asked.metrics, precision)
    except RunError as error:
        return Proof(trees, untimed=error.note)
    proof = Proof(trees, numbers)
    if numbers.parted:
        return proof
    screen.say(f"the numbers hold: {numbers.holds}")
    run = sides.base.costs
    most = run.affordable(sides.left_s())
    if most < FEWEST:
        least = asked.budget_s + run.pairs_s(FEWEST) - sides.left_s()
        said = (
            f"the budget has no room for {FEWEST} pairs of runs of {minutes(run.run_s)}, the least "
            f"that can tell: give --budget {math.ceil(least / 60)}"
        )
        return replace(proof, untimed=said)
    screen.doing("pairs of fresh processes")
    return timed(proof, asked, lambda edit: sides.sample(EDIT if edit else ()), most)


def timed(proof: Proof, asked: Asked, sample: Callable[[bool], Sample], most: int) -> Proof:
    """The same with the time told, from so many pairs at most."""
    seen: tuple[list[Sample], list[Sample]] = ([], [])

    def run(edit: bool) -> Sample:
        seen[edit].append(found := sample(edit))
        return found

    def known(times: Pairs[Sample]) -> Proof:
        if not times.before:
            return replace(proof, interrupted=times.interrupted)
        found = judged(times.before, times.after, asked.metrics, asked.goal)
        return replace(proof, comparisons=found, interrupted=times.interrupted)

    def settled(times: Pairs[Sample]) -> bool:
        return known(times).outcome != "inconclusive"

    try:
        looks = looks_within(most)
        return known(pairs.measure(lambda: run(False), lambda: run(True), settled, looks))
    except RunError as error:  # the pairs until then count
        whole = min(map(len, seen))
        times = Pairs(tuple(seen[0][:whole]), tuple(seen[1][:whole]))
        return replace(known(times), untimed=error.note)
