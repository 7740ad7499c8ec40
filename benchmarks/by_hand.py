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

from pitstop.compare.pairs import LOOKS
from pitstop.core.errors import PitstopError
from pitstop.tune.budget import Costs
from pitstop.tune.change import find_change
from pitstop.tune.looks import compared
from pitstop.tune.plan import Toggle, Value, Wanted
from pitstop.tune.processes import Course, Processes
from pitstop.tune.timed import mean_ms
from pitstop.tune.track import Changes, RunError
from pitstop.tune.tuned import read_tuned

BLOCK = 2  # steps, of what is switched
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


def _track(course: Course) -> Processes:
    """One that knows what a step of the script is."""
    first = Processes(course).sample(()).evidence
    print(f"a step ends with {first.step_kind}, {first.step_events} of them", flush=True)
    return Processes(replace(course, step_ends=(first.step_kind, first.step_events)))


def _fresh_runs(track: Processes, sets: dict[str, Changes], rounds: int) -> dict[str, list[float]]:
    """The mean steps of each set's runs; what fails once is left out."""
    times: dict[str, list[float]] = {name: [] for name in sets}
    for name, changes in [*sets.items()] * rounds:
        if name not in times:
            continue
        begun = time.monotonic()
        try:
            ms = mean_ms(track.sample(changes))
        except RunError as error:
            print(f"{name}: {error.verdict}, {error.note}", flush=True)
            del times[name]
            continue
        times[name].append(ms)
        print(f"{name}: {ms:.1f} ms ({time.monotonic() - begun:.0f} s)", flush=True)
    return times


def _print_blocks(name: str, track: Processes, changes: Changes, toggle: Toggle) -> None:
    try:
        step = compared(track.blocks(changes, toggle))
    except RunError as error:
        print(f"{name}: {error.verdict}, {error.note}", flush=True)
        return
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
        costs = Costs(START_S, 0.0, arguments.steps, Toggle())
        words = (sys.executable, *script)
        track = _track(Course(words, Path(place), known, costs, math.inf, compiled=COMPILED))
        times = _fresh_runs(track, sets, arguments.rounds)
        for name, (base, more) in on_top.items():
            toggle = Toggle(BLOCK, arguments.steps, changes=len(more), pairs=LOOKS[-1])
            _print_blocks(name, track, (*base, *more), toggle)
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
