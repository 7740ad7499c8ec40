"""What an expert reaches by hand: sets of changes that he names, each in fresh processes.

    python benchmarks/by_hand.py tf32+bf16 bf16+compile:scope=blocks @tuned.toml -- train.py [ARGS]

The untouched script and each set run in turn, round after round. ``@FILE`` is what `pitstop tune`
has kept: it should be within 5 % of the best of them. What fails says so and is left out.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from pitstop.core.errors import PitstopError
from pitstop.tune.budget import Costs
from pitstop.tune.change import find_change
from pitstop.tune.plan import Toggle, Value, Wanted
from pitstop.tune.processes import Course, Processes
from pitstop.tune.timed import mean_ms
from pitstop.tune.track import Changes, RunError
from pitstop.tune.tuned import read_tuned

PATIENCE_S = 240.0  # for one run, compilation included
UNTOUCHED = "untouched"


def parse(words: str) -> Changes:
    """``tf32+loader:workers=4``, or the changes of a file."""
    if words.startswith("@"):
        return read_tuned(Path(words[1:]))
    return tuple(map(_wanted, words.split("+")))


def _wanted(word: str) -> Wanted:
    name, *options = word.split(":")
    return Wanted(
        name, {key: _value(value) for key, _, value in (x.partition("=") for x in options)}
    )


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() else text


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
    try:
        sets = {UNTOUCHED: (), **{words: parse(words) for words in arguments.sets}}
        names = {wanted.name for changes in sets.values() for wanted in changes}
        known = {name: find_change(name) for name in names}
    except PitstopError as error:
        parser.error(str(error))
    times: dict[str, list[float]] = {name: [] for name in sets}
    with tempfile.TemporaryDirectory(prefix="pitstop-by-hand-") as place:
        costs = Costs(PATIENCE_S / 10, 0.0, arguments.steps, Toggle())
        words = (sys.executable, *script)
        track = Processes(Course(words, Path(place), known, costs, time.monotonic()))
        for _ in range(arguments.rounds):
            for name, changes in list(sets.items()):
                begun = time.monotonic()
                try:
                    ms = mean_ms(track.sample(changes))
                except RunError as error:
                    print(f"{name}: {error.verdict}, {error.note}", flush=True)
                    del sets[name], times[name]
                    continue
                times[name].append(ms)
                print(f"{name}: {ms:.1f} ms ({time.monotonic() - begun:.0f} s)", flush=True)
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
