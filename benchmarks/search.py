"""What a search keeps of scripts whose steps are noisy, in 8 to 30 minutes, by simulation.

    python benchmarks/search.py [--searches 40] [SCRIPT ...]

Scripts are known by their start, step, noise and what each change brings; nothing is run, and the
minutes are those of a clock that is only counted. *Behind* is how much longer the step takes with
what was kept than with all that helps; what is kept though it brings nothing is a *passenger*.
"""

import argparse
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean

from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Step
from pitstop.tune import budget, pace
from pitstop.tune.candidates import Candidate
from pitstop.tune.change import Change
from pitstop.tune.found import Asked
from pitstop.tune.looks import tell_enough
from pitstop.tune.plan import Toggle, is_on
from pitstop.tune.search import Search
from pitstop.tune.track import UNTIMED, Changes, Checked, Patience, RunError, forever

MINUTES = (8, 12, 20, 30)
SLOW = math.exp(-1 / 30)  # what is left of slow noise a step later
SPIKE = 1.0  # what a disturbed step takes more, at most


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
    compile_s: float = 0.0  # by which it starts later with torch.compile

    def candidates(self) -> list[Candidate]:
        """All of them can be switched; those that read in workers are tried alone."""
        return [
            Candidate(
                Change(name, "rounding", ("time",), "", lambda _: None, toggles=True, alone=alone),
                ({},),
                promised,
                bursts=lambda *_, burst=int(name == "loader"): burst,
            )
            for name, (_, promised) in self.gains.items()
            for alone in (name in {"loader", "compile"},)
        ]

    def best_s(self) -> float:
        """A step with all that helps."""
        return self.step_s * math.prod(1 - max(0.0, gain) for gain, _ in self.gains.values())


FIVE: dict[str, tuple[float, float | None]] = {
    "tf32": (0.10, None),
    "fused-optimizer": (0.03, None),
    "channels-last": (0.02, None),
    "no-empty-cache": (0.0, None),
    "cudnn-benchmark": (-0.03, None),
}
SCRIPTS = {
    "quiet": Script(8.0, 0.2, 0.01, FIVE),
    "noisy and short": Script(5.0, 0.02, 0.08, FIVE, 0.03),
    "slow to start": Script(43.0, 0.3, 0.04, FIVE, 0.02, 0.03),
    "small gains, promised": Script(
        *(35.0, 0.43, 0.05),
        {
            "loader": (0.32, 0.39),
            "tf32": (0.04, 0.05),
            "fused-optimizer": (0.045, 0.03),
            "fused-group-norm": (0.045, 0.03),
            "cudnn-benchmark": (0.0, None),
            "checkpointing-off": (0.0, None),
        },
        *(0.02, 0.02),
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
    "nothing helps": Script(10.0, 0.3, 0.06, dict.fromkeys(FIVE, (0.0, None)), 0.02, 0.03),
}


class Simulated:
    """A ``Track``: runs take the time that they would, by a clock that is only counted."""

    def __init__(self, script: Script, budget_s: float, seed: int) -> None:
        self.script = script
        self.costs = budget.choose(script.start_s, script.step_s)
        self.clock_s = self.known_s = 0.0
        self._budget_s = budget_s
        self._random = random.Random(seed)
        self._wander = 0.0

    def step_s(self, changes: Changes) -> float:
        """A step without noise."""
        gains = (self.script.gains[each.name][0] for each in changes)
        return self.script.step_s * math.prod(1 - gain for gain in gains)

    def check(
        self,
        changes: Changes,
        toggle: Toggle | None = None,
        patience_s: Patience = forever,
        new: int = 1,
    ) -> Checked:
        """Its numbers hold where it runs."""
        del new
        begins_s, room_s = self._begins_s(changes), patience_s()
        if begins_s > room_s:
            self.clock_s += room_s
            raise RunError("not-applicable", "no room", hasty=True)
        if any(each.name in self.script.broken for each in changes):
            self.clock_s += begins_s
            raise RunError("failed", "it fails")
        runs = [self._run(changes) for _ in range(1 if changes else budget.NULL_RUNS)]
        times = self._switched(changes, toggle) if toggle else UNTIMED
        ms = fmean(each.total_ms for each in runs[0].steps)
        noise = pace.noise(runs[0])
        compile_s = begins_s - self.script.start_s
        return Checked(
            step_ms=ms, steps=self.costs.steps, compile_s=compile_s, noise=noise, times=times
        )

    def over_seeds(self, changes: Changes) -> Checked:
        """No numbers are left open."""
        return self.check(changes)

    def sample(self, changes: Changes) -> Sample:
        """A fresh run."""
        return Sample(self._run(changes), batch=1)

    def blocks(self, changes: Changes, toggle: Toggle) -> Pairs[float]:
        """Blocks of one process."""
        self.clock_s += self._begins_s(changes)
        return self._switched(changes, toggle)

    def each(self, changes: Changes, toggle: Toggle) -> tuple[Pairs[float], ...]:
        """Likewise, of each of the last changes."""
        self.clock_s += self._begins_s(changes)
        alone = replace(toggle, changes=1, warmup=0)
        others, switched = changes[: -toggle.changes], changes[-toggle.changes :]
        rests = ((*others, *(x for x in switched if x != one)) for one in switched)
        self._steps(changes, toggle.warmup)
        return tuple(
            self._switched((*rest, one), alone) for rest, one in zip(rests, switched, strict=True)
        )

    def knows(self, _: Changes, /) -> bool:
        """Nothing."""
        return False

    def left_s(self) -> float:
        """By the counted clock."""
        return self._budget_s - self.clock_s

    def _run(self, changes: Changes) -> Evidence:
        self.clock_s += self._begins_s(changes)
        steps = self._steps(changes, self.costs.steps)[budget.WARMUP :]
        return Evidence(steps=tuple(Step(1e3 * each) for each in steps))

    def _switched(self, changes: Changes, toggle: Toggle) -> Pairs[float]:
        self._steps(changes, toggle.warmup)
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * toggle.pairs):
            on = is_on(number)
            chosen = changes if on else changes[: -toggle.changes]
            self._steps(chosen, toggle.lead_of(number))
            times[on].append(1e3 * fmean(self._steps(chosen, toggle.steps)))
            found = Pairs(tuple(times[False]), tuple(times[True]))
            if number % 2 and tell_enough(found):
                break
        return found

    def _begins_s(self, changes: Changes) -> float:
        compiles = any(each.name == "compile" for each in changes)
        return self.script.start_s + self.script.compile_s * compiles

    def _steps(self, changes: Changes, number: int) -> list[float]:
        step_s = self.step_s(changes)
        steps = [step_s * self._noise() for _ in range(number)]
        self.clock_s += sum(steps)
        return steps

    def _noise(self) -> float:
        wander = self._random.gauss(0.0, self.script.wander * math.sqrt(1 - SLOW**2))
        self._wander = SLOW * self._wander + wander
        noise = math.exp(self._wander + self._random.gauss(0.0, self.script.noise))
        spiked = self._random.random() < self.script.spikes
        return noise * (1 + SPIKE * self._random.random() if spiked else 1.0)


def main() -> int:
    """A table for each script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=", ".join(SCRIPTS))
    parser.add_argument("--searches", type=int, default=40, help="for each line")
    arguments = parser.parse_args()
    print(f"{'script':24} {'budget':>7} {'took':>7} {'behind':>7} {'passengers':>11}  kept in")
    for name in arguments.scripts or SCRIPTS:
        for minutes in MINUTES:
            _line(name, SCRIPTS[name], minutes, arguments.searches)
    return 0


def _line(name: str, script: Script, minutes: int, searches: int) -> None:
    behind, took, kept = [], [], []
    for seed in range(searches):
        track = Simulated(script, 60.0 * minutes, seed)
        found = Search(track, track.costs, Asked()).run(script.candidates()).kept
        behind.append(track.step_s(found) / script.best_s() - 1)
        took.append(track.clock_s / 60)
        kept += [each.name for each in found]
    share: Callable[[str], float] = lambda each: kept.count(each) / searches  # noqa: E731
    passengers = sum(share(each) for each, (gain, _) in script.gains.items() if gain <= 0)
    helpers = (each for each, (gain, _) in script.gains.items() if gain > 0)
    said = ", ".join(f"{each} {share(each):.0%}" for each in helpers)
    numbers = f"{fmean(took):5.1f}mn {fmean(behind):7.1%} {passengers:11.2f}"
    print(f"{name:24} {minutes:5}mn {numbers}  {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
