"""A simulated script on a simulated machine: steps cost what we say, noise comes from a seed."""

import random
from dataclasses import dataclass, field, replace

from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Memory, Step
from pitstop.tune.budget import Costs, pairs_within
from pitstop.tune.candidates import Candidate
from pitstop.tune.change import Change, When
from pitstop.tune.found import Asked
from pitstop.tune.looks import tell_enough
from pitstop.tune.plan import Toggle
from pitstop.tune.search import Search
from pitstop.tune.track import Checked, RunError

GIB = 2**30
COSTS = Costs(start_s=5.0, step_s=0.1, steps=20, toggle=Toggle(steps=4))


def candidate(
    name,
    toggles=True,
    options=({},),
    predicted=None,
    rivals=(),
    alone=False,
    burst=0,
    like=(),
    *,
    pays_with=(),
):
    """A change that does nothing by itself: the simulation knows what it would do."""
    change = Change(
        name,
        "rounding",
        ("time", "memory"),
        "",
        lambda _: None,
        toggles=toggles,
        alone=alone,
        when=When(rivals=rivals, like=like, pays_with=pays_with),
    )
    return Candidate(change, tuple(options), predicted, bursts=lambda *_: burst)


@dataclass
class Simulated:
    """A ``Track``: ``step_ms`` is a function of the names (and options) of the changes."""

    step_ms: object  # callable: dict name -> options, to milliseconds
    refused: dict = field(default_factory=dict)  # name -> Checked
    seeds: dict = field(default_factory=dict)  # name -> Checked, which one run leaves open
    breaks: dict = field(default_factory=dict)  # name -> RunError while it is timed
    peak_gib: dict = field(default_factory=dict)  # name -> GiB that it adds
    noise: float = 0.003
    budget_s: float = 3600.0
    interrupt_at: int | None = None  # the run that Ctrl-C hits
    length: int = 1000  # steps that the script has
    waits: dict = field(default_factory=dict)  # workers -> share of a step; all of it unless said
    known_s: float = 0.0
    log: list = field(default_factory=list)
    clock_s: float = 0.0

    def __post_init__(self):
        self._random = random.Random(7)

    def _once(self, kind, changes, steps=0):
        self.log.append((kind, tuple(each.name for each in changes)))
        if self.interrupt_at == len(self.log):
            raise KeyboardInterrupt
        ms = self._time(changes)
        self.clock_s += COSTS.start_s + steps * ms / 1e3
        return ms

    def _time(self, changes):
        noise = self._random.lognormvariate(0, self.noise)
        return self.step_ms({each.name: each.options for each in changes}) * noise

    def _peak(self, changes):
        return int((2 + sum(self.peak_gib.get(each.name, 0) for each in changes)) * GIB)

    def check(self, changes, toggle=None, patience_s=None, new=1):
        ms = self._once("check", changes, COSTS.steps)
        if not changes:
            self.clock_s += COSTS.run_s  # the untouched script runs twice
        for each in changes[-1:]:
            if each.name in self.refused:
                return self.refused[each.name]
        steps = min(self.length, COSTS.steps)
        peak = self._peak(changes)
        times = self._switched(changes, toggle, COSTS.steps) if toggle else Pairs()
        workers = changes[-1].options.get("workers") if changes else None
        share = self.waits.get(workers, 1.0)
        found = Checked(None, "", ms, peak, 0.0, 1e-5, steps=steps, times=times, waits=share)
        if any(each.name in self.seeds for each in changes[-new:]):
            return replace(found, drift=None, tolerance=None, needs_seeds=True)
        return found

    def over_seeds(self, changes):
        for _ in range(2):
            self._once("seeds", changes, COSTS.steps)
        return next(self.seeds[each.name] for each in changes if each.name in self.seeds)

    def sample(self, changes):
        ms = self._once("sample", changes, COSTS.steps)
        for each in changes:
            if each.name in self.breaks:
                raise self.breaks[each.name]
        memory = (Memory(1.0, gpu_peak_bytes=self._peak(changes)),)
        return Sample(Evidence(steps=(Step(ms),) * 10, memory=memory), batch=4)

    def blocks(self, changes, toggle):
        self._once("blocks", changes)
        return self._switched(changes, toggle)

    def each(self, changes, toggle):
        self._once("each", changes)
        others, switched = changes[: -toggle.changes], changes[-toggle.changes :]
        alone = replace(toggle, changes=1)
        return tuple(
            self._switched((*others, *(x for x in switched if x != one), one), alone)
            for one in switched
        )

    def _switched(self, changes, toggle, first=0):
        if changes[-1].name in self.breaks:
            raise self.breaks[changes[-1].name]
        before, after = [], []
        for place in range(pairs_within(toggle, self.length - 1 - first)):
            before.append(self._time(changes[: -toggle.changes]))
            after.append(self._block(changes, place))
            if tell_enough(Pairs(tuple(before), tuple(after))):
                break
        steps = toggle.length(2 * len(before))
        self.clock_s += steps * self.step_ms({each.name: each.options for each in changes}) / 1e3
        return Pairs(tuple(before), tuple(after))

    def _block(self, changes, place):
        """The time of a block with the changes on, of one pair."""
        del place
        return self._time(changes)

    def knows(self, changes):
        return False

    def left_s(self):
        return self.budget_s - self.clock_s

    def runs(self, kind, *names):
        return sum(each == (kind, names) for each in self.log)


def failing(note="RuntimeError: compile"):
    return RunError("failed", note)


class Uneven(Simulated):
    """Every other block with a change is slower by a fortieth, and the rest is faster by that."""

    def _block(self, changes, place):
        return self._time(changes) * (1 + 0.025 * (-1) ** place)


def search(track, candidates, asked=None, listener=None):
    return Search(track, COSTS, asked or Asked(), listener).run(candidates)


def verdicts(found):
    return {each.change: each.verdict for each in found.trials}


def loader_bound(changes):
    """100 ms of work, and a wait that one worker halves and two remove."""
    workers = changes.get("loader", {}).get("workers", 0)
    return 100 + {0: 80, 1: 40}.get(workers, 2)


LOADER = candidate("loader", toggles=False, options=({"workers": 1}, {"workers": 2}), predicted=0.4)
LOADER_OF_ONE = candidate("loader", toggles=False)
