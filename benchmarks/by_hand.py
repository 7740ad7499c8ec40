"""What an expert reaches by hand: sets of changes that he names, each in fresh processes.

    python benchmarks/by_hand.py tf32+bf16 bf16+compile:scope=blocks @tuned.toml -- train.py [ARGS]
    python benchmarks/by_hand.py @tuned.toml//fused-optimizer+channels-last -- train.py [ARGS]

A first run tells what its steps are; then the untouched script and each set run in turn, round
after round. ``@FILE`` is what `pitstop tune` has kept: it should be within 5 % of the best of them.
What fails says so and is left out. What stands behind ``//`` is switched off and on in one process,
on top of the rest: fresh runs differ by more than what is left to gain. What compilers have made is
found again by the next call.
"""

import argparse
import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from pitstop.compare.quantities import step_ms
from pitstop.core.errors import PitstopError
from pitstop.tune.bench.bench import LiveBench, Pace
from pitstop.tune.bench.process import Start
from pitstop.tune.bench.questions import CALL, STEP, BenchPlan
from pitstop.tune.change import find_change
from pitstop.tune.checked import Changes, RunError
from pitstop.tune.plan import Value, Wanted
from pitstop.tune.runs.costs import Costs
from pitstop.tune.runs.fresh import Course, FreshRuns
from pitstop.tune.runs.looks import compared
from pitstop.tune.tuned import read_tuned

START_S = 24.0  # a run may take ten times that, and five minutes more to compile
UNTOUCHED = "untouched"
ON_TOP = "//"
COMPILED = Path(tempfile.gettempdir(), "pitstop-by-hand-compiled")


def parse(words: str) -> Changes:
    """``tf32+loader:workers=4``, or the changes of a file; none where nothing is written."""
    if not words:
        return ()
    if words.startswith("@"):
        return read_tuned(Path(words[1:]))
    return tuple(map(_wanted, words.split("+")))


def _wanted(word: str) -> Wanted:
    name, *options = word.split(":")
    return Wanted(
        name, {key: _value(value) for key, _, value in (x.partition("=") for x in options)}
    )


def _value(text: str) -> Value:
    if text in {"True", "False"}:
        return text == "True"
    return int(text) if text.isdecimal() else text


def _course(course: Course) -> Course:
    """One that knows what a step of the script is, and how long it takes."""
    first = FreshRuns(course).sample(()).evidence
    print(f"a step ends with {first.step_kind}, {first.step_events} of them", flush=True)
    costs = replace(course.costs, step_s=(step_ms(first) or 1.0) / 1e3)
    return replace(course, step_ends=(first.step_kind, first.step_events), costs=costs)


def _fresh_runs(track: FreshRuns, sets: dict[str, Changes], rounds: int) -> dict[str, list[float]]:
    """The mean steps of each set's runs; what fails once is left out."""
    times: dict[str, list[float]] = {name: [] for name in sets}
    for name, changes in [*sets.items()] * rounds:
        if name not in times:
            continue
        begun = time.monotonic()
        try:
            ms = step_ms(track.sample(changes).evidence) or math.nan
        except RunError as error:
            print(f"{name}: {error.verdict}, {error.note}", flush=True)
            del times[name]
            continue
        times[name].append(ms)
        print(f"{name}: {ms:.1f} ms ({time.monotonic() - begun:.0f} s)", flush=True)
    return times


def _print_blocks(name: str, course: Course, base: Changes, more: Changes) -> None:
    trains = course.step_ends[0] == "optimizer"
    plan = BenchPlan((*base, *more), (), "", "", trains, STEP if trains else CALL)
    start = Start(course.words, course.folder / "bench", plan, course.step_ends)
    bench = LiveBench(start, Pace(course.costs.start_s, course.costs.step_s), math.inf)
    try:
        step = compared(bench.blocks(base, (*base, *more)))
    except RunError as error:
        print(f"{name}: {error.verdict}, {error.note}", flush=True)
        return
    finally:
        bench.close()
    ends = f" ({step.low:.3f} to {step.high:.3f})" if step.low and step.high else ""
    ms = f"{step.before:.1f} to {step.after:.1f} ms"
    print(f"{name}: {ms}, {step.ratio:.3f}{ends}, {step.pairs} pairs: {step.verdict}", flush=True)


def main() -> int:
    """Run all sets, print the steps of each run, and last a table, the fastest first."""
    ours = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    script = sys.argv[len(ours) + 2 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=16, help="of each run, 3 of them to warm up")
    arguments = parser.parse_args(ours)
    if not script:
        parser.error("after -- comes the script")
    whole = [words for words in arguments.sets if ON_TOP not in words]
    try:
        sets = {UNTOUCHED: (), **{words: parse(words) for words in whole}} if whole else {}
        on_top = {
            words: tuple(map(parse, words.split(ON_TOP)))
            for words in arguments.sets
            if ON_TOP in words
        }
        every = (*sets.values(), *(part for parts in on_top.values() for part in parts))
        known = {each.name: find_change(each.name) for changes in every for each in changes}
    except PitstopError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory(prefix="pitstop-by-hand-") as place:
        costs = Costs(START_S, 0.1, arguments.steps)
        words = (sys.executable, *script)
        course = Course(words, Path(place), known, costs, math.inf, compiled=COMPILED)
        course = _course(course)
        times = _fresh_runs(FreshRuns(course), sets, arguments.rounds)
        for name, (base, more) in on_top.items():
            _print_blocks(name, course, base, more)
    if not whole:
        return 0
    if not times.get(UNTOUCHED):
        return 1
    before = median(times[UNTOUCHED])
    print(f"\n{'step, ms':>10} {'ratio':>6}  set")
    for name, each in sorted(times.items(), key=lambda pair: median(pair[1])):
        runs = ", ".join(f"{ms:.1f}" for ms in each)
        print(f"{median(each):10.1f} {median(each) / before:6.3f}  {name}  ({runs})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
