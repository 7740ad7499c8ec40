"""What a search keeps of scripts whose steps are noisy, in 3 to 12 minutes, by simulation.

    python benchmarks/search.py [--searches 40] [SCRIPT ...]

Scripts are known by their start, step, noise and what each change brings; nothing is run, and the
minutes are those of a clock that is only counted. *Behind* is how much longer the step takes with
what was kept than with all that helps; what is kept though it brings nothing is a *passenger*.
*First* is the minute at which something faster was known.
"""

import argparse
import math
import random
import sys
from dataclasses import dataclass
from statistics import fmean

from pitstop.compare.pairs import LOOKS, Pairs
from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Step
from pitstop.tune.bench.bench import Kind, Pace
from pitstop.tune.bench.questions import Answer
from pitstop.tune.change import Change, When
from pitstop.tune.checked import Changes, Checked, RunError
from pitstop.tune.found import Asked, Found, Listener
from pitstop.tune.guard.twins import Twins
from pitstop.tune.runs import costs
from pitstop.tune.runs.looks import tell_enough
from pitstop.tune.runs.timed import Timed, by_blocks
from pitstop.tune.search.order import Candidate
from pitstop.tune.search.search import Search

MINUTES = (3, 5, 8, 12)
SLOW = math.exp(-1 / 30)  # what is left of slow noise a step later
SPIKE = 1.0  # what a disturbed step takes more, at most
FRESH = {"loader", "cudnn-benchmark"}  # what cannot be switched
LOOKED_AT = 2  # runs that the first look takes as long as


@dataclass(frozen=True)
class Script:
    """A script, and what changes do to it: by how much of a step, and what a finding promised."""

    start_s: float
    step_s: float
    noise: float  # of single steps, as a share
    gains: dict[str, tuple[float, float | None]]
    wander: float = 0.0  # slow noise: of some tens of steps, as a share
    spikes: float = 0.0  # share of the steps that a neighbour disturbs
    broken: tuple[str, ...] = ()  # changes with which it fails
    compile_s: float = 0.0  # that torch.compile takes

    def candidates(self) -> list[Candidate]:
        """What can be switched first, by what is promised."""
        found = [self._candidate(*each) for each in self.gains.items()]
        return sorted(found, key=lambda each: (each.stage, -(each.predicted or 0.0)))

    def _candidate(self, name: str, told: tuple[float, float | None]) -> Candidate:
        when = When(late=name == "compile")
        change = Change(
            *(name, "rounding", ("time",), "", lambda _: None),
            toggles=name not in FRESH,
            when=when,
        )
        setup_s = self.compile_s if name == "compile" else 0.0
        return Candidate(change, ({},), told[1], "PIT000" if told[1] else "", (setup_s,))

    def best_s(self) -> float:
        """A step with all that helps."""
        return self.step_s * math.prod(1 - max(0.0, gain) for gain, _ in self.gains.values())


FIVE: dict[str, tuple[float, float | None]] = {
    "tf32": (0.10, 0.1),
    "fused-optimizer": (0.03, None),
    "channels-last": (0.02, 0.05),
    "no-empty-cache": (0.0, None),
    "cudnn-benchmark": (-0.03, None),
}
SCRIPTS = {
    "quiet": Script(8.0, 0.2, 0.01, FIVE),
    "noisy and short": Script(5.0, 0.02, 0.08, FIVE, 0.03),
    "slow to start": Script(43.0, 0.3, 0.04, FIVE, 0.02, 0.03),
    "imagenet on a GPU": Script(
        *(20.0, 0.118, 0.02),
        {
            "bf16": (0.35, 0.4),
            "channels-last": (0.25, 0.12),
            "fused-optimizer": (0.03, None),
            "tf32": (0.0, None),
            "compile": (0.28, 0.2),
            "cudnn-benchmark": (0.02, 0.13),
        },
        compile_s=60.0,
    ),
    "long steps": Script(
        *(11.0, 1.5, 0.06),
        {
            "loader": (0.12, 0.12),
            "channels-last": (-0.15, 0.05),
            "fused-group-norm": (0.09, 0.04),
            "no-empty-cache": (0.0, 0.02),
        },
        *(0.03, 0.05),
    ),
    "two fail, one compiles": Script(
        *(35.0, 0.43, 0.06),
        {
            "loader": (0.36, 0.41),
            "channels-last": (0.0, 0.08),
            "tf32": (0.02, None),
            "bf16": (0.0, None),
            "fused-group-norm": (0.045, None),
            "fused-optimizer": (0.045, None),
            "compile": (0.0, None),
        },
        *(0.02, 0.02),
        ("channels-last", "bf16"),
        120.0,
    ),
    "nothing helps": Script(10.0, 0.3, 0.06, dict.fromkeys(FIVE, (0.0, 0.05)), 0.02, 0.03),
}


class Simulated:
    """A ``Bench`` and ``Fresh``: all takes the time that it would, by a clock that is counted."""

    def __init__(self, script: Script, budget_s: float, seed: int) -> None:
        self.script = script
        self.costs = costs.choose(script.start_s, script.step_s)
        self.pace = Pace(script.start_s, script.step_s)
        self.clock_s = LOOKED_AT * self.costs.run_s
        self.reserve_s = 0.0
        self.whole = self.waited = False
        self.first_s = math.inf
        self._runs = False
        self._known: set[str] = set()
        self._budget_s = budget_s
        self._random = random.Random(seed)
        self._wander = 0.0

    def step_s(self, changes: Changes) -> float:
        """A step without noise."""
        gains = (self.script.gains[each.name][0] for each in changes)
        return self.script.step_s * math.prod(1 - gain for gain in gains)

    def twins(self, on: Changes, number: int, kind: Kind) -> Twins:
        """The numbers of all that does not fail hold."""
        self._starts(on)
        self.clock_s += 2 * number * (self.script.step_s + self.step_s(on))
        far = 1e-4 if kind.moved else 1e-5 if on else 0.0
        return Twins((Answer(distances={"loss 0": far}, losses=((1.0,), (1.0,))),) * number)

    def blocks(self, off: Changes, on: Changes) -> Pairs[float]:
        """As ``LiveBench`` has it."""
        self._starts(on)
        times: Pairs[float] = Pairs()
        while len(times.before) < LOOKS[-1] and not tell_enough(times):
            before, after = self._block(off), self._block(on)
            times = Pairs((*times.before, before), (*times.after, after))
        return times

    def peaks(self, off: Changes, on: Changes) -> tuple[int | None, int | None]:
        """Nobody asks."""
        raise NotImplementedError(off, on)

    def draws_otherwise(self, changes: Changes) -> bool:
        """No."""
        return not isinstance(changes, tuple)

    def setup_s(self, on: Changes) -> float | None:
        """Nobody knows."""
        return None if isinstance(on, tuple) else 0.0

    def lost(self, changes: Changes) -> tuple[str, ...]:  # noqa: ARG002 a simulation loses none
        """Nothing."""
        return ()

    def left_s(self) -> float:
        """By the counted clock."""
        return self._budget_s - self.clock_s

    def close(self) -> None:
        """The next question costs a start."""
        self._runs = False

    def check(self, changes: Changes) -> Checked:
        """Two fresh runs."""
        self.clock_s += 2 * self.costs.run_s
        self._fails(changes)
        return Checked()

    def times(self, off: Changes, on: Changes) -> Timed:
        """Two pairs of fresh runs."""
        pairs = [(self._fresh(off), self._fresh(on)) for _ in range(6)]
        self.clock_s += 4 * self.costs.run_s
        return by_blocks(Pairs(tuple(a for a, _ in pairs), tuple(b for _, b in pairs)))

    def sample(self, changes: Changes) -> Sample:
        """One fresh run."""
        self.clock_s += self.costs.run_s
        step = Step(self._fresh(changes))
        return Sample(Evidence(steps=(step,) * 6, warmup_steps=2), 1)

    def kept(self, found: Found) -> None:
        """Something is faster."""
        if found.kept:
            self.first_s = min(self.first_s, self.clock_s)

    def _starts(self, on: Changes) -> None:
        if not self._runs:
            self.clock_s += self.script.start_s
            self._runs = True
        self._fails(on)
        if any(each.name == "compile" for each in on) and "compile" not in self._known:
            self.clock_s += self.script.compile_s
        self._known |= {each.name for each in on}

    def _fails(self, changes: Changes) -> None:
        for each in changes:
            if each.name in self.script.broken:
                self._runs = False
                raise RunError("failed", f"{each.name} failed")

    def _fresh(self, changes: Changes) -> float:
        return fmean(self._one(changes) for _ in range(6)) * 1e3

    def _block(self, changes: Changes) -> float:
        self.clock_s += self.pace.lead * self.step_s(changes)
        steps = [self._one(changes) for _ in range(self.pace.block)]
        self.clock_s += sum(steps)
        return fmean(steps) * 1e3

    def _one(self, changes: Changes) -> float:
        script = self.script
        fresh = self._random.gauss(0, script.wander * math.sqrt(1 - SLOW**2))
        self._wander = SLOW * self._wander + fresh
        spike = self._random.random() * SPIKE if self._random.random() < script.spikes else 0.0
        noise = math.exp(self._random.gauss(0, script.noise) + self._wander) + spike
        return self.step_s(changes) * noise


def search(script: Script, minutes: float, seed: int) -> tuple[float, int, float, float]:
    """How far behind the best it ends, passengers, minutes to something faster, and to the end."""
    bench = Simulated(script, 60 * minutes, seed)
    candidates = script.candidates()
    changes = {each.change.name: each.change for each in candidates}
    listener = Listener(kept=bench.kept)
    found = Search(bench, bench, changes, Asked(), listener).run(candidates)
    behind = bench.step_s(found.kept) / script.best_s() - 1
    passengers = sum(script.gains[each.name][0] <= 0 for each in found.kept)
    return behind, passengers, bench.first_s / 60, bench.clock_s / 60


def main() -> int:
    """One line for each script and budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*")
    parser.add_argument("--searches", type=int, default=40)
    arguments = parser.parse_args()
    print(f"{'script':24} {'minutes':>7} {'behind':>7} {'passengers':>10} {'first':>6} {'end':>5}")
    for name in arguments.scripts or SCRIPTS:
        for minutes in MINUTES:
            rows = [search(SCRIPTS[name], minutes, seed) for seed in range(arguments.searches)]
            behind, passengers = fmean(row[0] for row in rows), sum(row[1] for row in rows)
            first = [row[2] for row in rows if math.isfinite(row[2])]
            end = fmean(row[3] for row in rows)
            said = f"{fmean(first):6.1f}" if first else f"{'-':>6}"
            print(f"{name:24} {minutes:7} {behind:7.1%} {passengers:10} {said} {end:5.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
