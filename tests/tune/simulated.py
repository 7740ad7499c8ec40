"""A simulated bench: steps take what we say, noise comes from a seed, numbers hold or do not."""

import random
from dataclasses import dataclass, field

from pitstop.compare.pairs import LOOKS, Pairs
from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Memory, Step
from pitstop.tune.bench.bench import Pace
from pitstop.tune.bench.questions import Answer
from pitstop.tune.change import Change, When
from pitstop.tune.checked import Checked, RunError
from pitstop.tune.found import Asked, Listener
from pitstop.tune.guard.twins import Twins
from pitstop.tune.runs.costs import Costs
from pitstop.tune.runs.looks import tell_enough
from pitstop.tune.runs.timed import by_blocks
from pitstop.tune.search.order import Candidate
from pitstop.tune.search.search import Search


def candidate(
    name,
    promised=None,
    *,
    toggles=True,
    rivals=(),
    options=({},),
    late=False,
    beside=(),
    setups_s=(),
):
    """A change that does nothing by itself: the simulation knows what it would do."""
    when = When(rivals=rivals, late=late, beside=beside)
    change = Change(
        *(name, "rounding", ("time", "memory"), "", lambda _: None), toggles=toggles, when=when
    )
    return Candidate(change, tuple(options), promised, "PIT000" if promised else "", setups_s)


@dataclass
class Simulated:
    """A ``Bench`` and ``Fresh`` in one; ``step_ms`` is a function of the names that are on."""

    step_ms: object
    wrong: tuple = ()  # changes whose numbers are off
    kills: tuple = ()  # changes that end the process
    noise: float = 0.003
    budget_s: float = 300.0
    step_s: float = 0.1
    seed: int = 7
    twins_work: bool = True
    interrupt_at: int = 10**9
    peaks_gib: dict = field(default_factory=dict)
    setups_s: dict = field(default_factory=dict)
    log: list = field(default_factory=list)
    reserve_s: float = 0.0
    whole: bool = False
    waited: bool = False

    def __post_init__(self):
        self._random = random.Random(self.seed)
        self.pace = Pace(10.0, self.step_s)
        self.costs = Costs(10.0, self.step_s, 20)
        self.clock_s = 0.0

    def twins(self, on, number, kind):
        self._asked("twins", on, 2 * number)
        if not self.twins_work:
            raise RunError("not-applicable", "its steps cannot be repeated")
        names = {each.name for each in on}
        far = 1e-4 if kind.moved else 0.1 if names & set(self.wrong) else 3e-5 if names else 0.0
        return Twins((Answer(distances={"loss 0": far}, losses=((1.0,), (1.0 + far,))),) * number)

    def blocks(self, off, on):
        self._asked("blocks", on, 4)
        times = Pairs()
        while len(times.before) < LOOKS[-1] and not tell_enough(times):
            one, other = self._time(off), self._time(on)
            times = Pairs((*times.before, one), (*times.after, other))
            self.clock_s += 2 * self.pace.block * self.step_s
        return times

    def peaks(self, off, on):
        return tuple(
            int(2**30 * (8 + sum(self.peaks_gib.get(each.name, 0) for each in side)))
            for side in (off, on)
        )

    def draws_otherwise(self, _):
        return False

    def setup_s(self, on):
        return self.setups_s.get(on[-1].name) if on else None

    def lost(self, on):
        return tuple("a log" for each in on if each.options.get("at") == "logs.py:1")

    def left_s(self):
        return self.budget_s - self.clock_s

    def close(self):
        self.log.append(("close", ()))

    def check(self, changes):
        self._asked("check", changes, 200)
        return Checked("drifted" if {each.name for each in changes} & set(self.wrong) else None)

    def times(self, off, on):
        self._asked("times", on, 400)
        pairs = [(self._time(off), self._time(on)) for _ in range(6)]
        return by_blocks(Pairs(tuple(a for a, _ in pairs), tuple(b for _, b in pairs)))

    def sample(self, changes):
        self._asked("sample", changes, 200)
        peak = int(2**30 * (8 + sum(self.peaks_gib.get(each.name, 0) for each in changes)))
        memory = (Memory(0.1, host_bytes=peak), Memory(0.2, host_bytes=peak))
        steps = tuple(Step(self._time(changes)) for _ in range(8))
        return Sample(Evidence(steps=steps, warmup_steps=2, memory=memory), 4)

    def _asked(self, what, on, steps):
        self.log.append((what, tuple(each.name for each in on)))
        self.clock_s += steps * self.step_s
        if len(self.log) >= self.interrupt_at:
            raise KeyboardInterrupt
        for name in self.kills:
            if any(each.name == name for each in on):
                raise RunError("failed", f"{name} ended by signal 11")

    def _time(self, on):
        names = {each.name: each.options for each in on}
        return self.step_ms(names) * self._random.lognormvariate(0, self.noise)


def gains(**shares):
    """Milliseconds of a step to which each change does its part."""

    def step_ms(names):
        ms = 100.0
        for name in names:
            ms *= 1 - shares.get(name, 0.0)
        return ms

    return step_ms


def search(bench, *candidates, goal="time", listener=None):
    changes = {each.change.name: each.change for each in candidates}
    bench.log.clear()
    return Search(bench, bench, changes, Asked(goal), listener or Listener()).run(candidates)


def verdicts(found):
    return {each.change: each.verdict for each in found.trials}
