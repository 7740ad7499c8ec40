"""Budget: what runs cost, how long they should be, and what a search will take at most."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pitstop.compare.pairs import FEWEST, LOOKS, looks_within
from pitstop.tune.candidates import Candidate
from pitstop.tune.plan import Toggle

RUN_SECONDS = 6.0  # of steps in a timed run: as long as most scripts take to start
STEPS = (6, 60)  # timed in a run at least and at most: loaders deliver in bursts of some steps
BLOCK_SECONDS = (0.2, 0.8)  # of timed steps in a block: shorter ones are all hiccups
LONGEST_BLOCK = 20  # steps
LONG_STEP_S = 0.4  # what a switch leaves to the first step after it is nothing beside that
CALM = 0.01  # noise of a block that shows gains of some percent
LONGEST_BLOCKS = 10  # times as long as a run: all of them, where steps are noisy; most end before
LONGEST_LOOK = 2.5  # likewise, for all blocks of a first look
SHORTER = 0.75  # blocks, if those have no room
TOGGLE_SECONDS = 2.0  # of steps before the first block: caches fill, algorithms are chosen
TOGGLE_STEPS = (3, 6)  # a compiler may look at the first shapes again
BURSTS = 2  # before a block of what comes in bursts: as much as workers read ahead by default
BURST_STEPS = 8  # timed of it at least: its steps differ more than others
IN_BURSTS = 0.3  # by which single steps differ, as a share, where they come so
READ_STEPS = 4  # likewise, where batches are always ready with it, and read in the step without
NULL_RUNS = 2  # the untouched script, and once more
MOVED_RUNS = 1  # once with its weights moved by a hair, for what drifts
MARGIN = 1.25  # machines slow down as they warm up, and neighbours come
WARMUP = 3  # steps of a run that are not timed
OTHERS = 3  # steps that a run ends before its time: calls of other models counted at first
MOST = LOOKS[-1]  # pairs of blocks in a process
SHORTEST_START_S = 0.1  # nothing starts faster; a run of which only steps were seen is no run


@dataclass(frozen=True, slots=True)
class Costs:
    """What one run takes, from what the first one took."""

    start_s: float  # until the first step
    step_s: float
    steps: int  # of a run, warm-up included
    toggle: Toggle
    length: int | None = None  # steps of a script that is known to end by itself
    timed: bool = True  # false: peaks are compared, of which one run tells enough
    later_s: float = 0.0  # until a run with what is kept is at speed: it compiles, for example

    @property
    def begin_s(self) -> float:
        """Until a process is at speed."""
        return self.start_s + self.later_s

    @property
    def run_s(self) -> float:
        """One fresh process."""
        return self.begin_s + self.steps * self.step_s

    @property
    def null_s(self) -> float:
        """The untouched runs that all candidates are held against."""
        return (NULL_RUNS + MOVED_RUNS) * self.run_s

    def proof_s(self, switched: bool) -> float:
        """Untouched against all kept, with a margin: it must not fall short.

        Blocks of steps will do where all that is kept can be switched in one process.
        """
        return MARGIN * self._first_look_s(switched)

    def reserve_s(self, *tried: Candidate) -> float:
        """What the proof of these takes; the pairs of a single one's trial will do as its proof."""
        if not self.timed:
            return self.proof_s(switched=False)
        switched = all(each.change.toggles for each in tried)
        return 0.0 if len(tried) == 1 else self.settled(*tried).proof_s(switched)

    def calmer(self, noise: float) -> Iterator["Costs"]:
        """Longer blocks, the longest first: noise of single steps averages out in them."""
        steps = min(math.ceil((noise / CALM) ** 2), self._longest)
        while steps > self.toggle.steps:
            yield self.of_blocks(steps)
            steps = int(SHORTER * steps)

    def of_blocks(self, steps: int) -> "Costs":
        """Blocks of so many steps."""
        return replace(self, toggle=replace(self.toggle, steps=steps))

    def evened(self, noise: float, burst: int = 0) -> "Costs":
        """Where steps come in bursts, all that follows is timed over whole ones, if there is room.

        ``burst`` of them at once; 0 where that is unknown.
        """
        if noise < IN_BURSTS:
            return self
        return self.of_blocks(max(self.toggle.steps, burst, min(BURST_STEPS, self._longest)))

    def settled(self, *switched: Candidate) -> "Costs":
        """The costs where these are switched: some bursts come first, and one at least is timed.

        Where epochs are short, whole ones are timed: each block has as many beginnings then. Until
        one has begun is as long as it can take to settle.
        """
        burst = max((each.burst for each in switched), default=0)
        if not burst:
            return self
        own = max(each.bursts({}, False) for each in switched)
        steps = max(self.toggle.steps, burst, BURST_STEPS if burst > 1 else READ_STEPS)
        epoch = max(each.epoch for each in switched)
        lead, lead_off = BURSTS * burst, BURSTS * own
        short = 0 < epoch <= LONGEST_BLOCK
        if short:
            lead, lead_off = min(lead, epoch), min(lead_off, epoch)
            steps = math.ceil(steps / epoch) * epoch
        toggle = replace(self.toggle, lead=lead, lead_off=lead_off, steps=steps, epochs=short)
        return replace(self, toggle=toggle)

    @property
    def pairs(self) -> int:
        """So many pairs of blocks fit into one process; an even number, as they alternate.

        0: there is no room for two, or for less than the first look wants, and blocks are too short
        to make up for that in more processes.
        """
        if self.length is None:
            return MOST
        found = pairs_within(replace(self.toggle, pairs=MOST), self.length - 1)
        if found < FEWEST and self.toggle.steps * self.step_s < BLOCK_SECONDS[0]:
            return 0
        return found // 2 * 2

    def pairs_s(self, number: int) -> float:
        """So many pairs of fresh processes; what starts late is one of each, in the proof."""
        return number * (2 * self.run_s - self.later_s)

    def blocks_s(self, number: int) -> float:
        """So many pairs of blocks, as many of them in each process as it has room for."""
        if number <= 0:
            return 0.0
        each = min(number, max(1, self.pairs))
        steps = toggled_steps(replace(self.toggle, pairs=each))
        return math.ceil(number / each) * (self.begin_s + steps * self.step_s)

    def each_s(self, changes: int, number: int) -> float:
        """So many pairs of blocks of each of some changes, all in one process."""
        return self.begin_s + changes * (self.blocks_s(number) - self.begin_s)

    def first_look(self, left_s: float) -> Toggle:
        """Blocks in the run that tells a change's numbers: more pairs where they cost little."""
        most_s = min(left_s - self.run_s, LONGEST_LOOK * self.run_s)
        fitting = [look for look in LOOKS if self.blocks_s(look) - self.begin_s <= most_s]
        return replace(self.toggle, pairs=max(fitting, default=FEWEST))

    def timing_s(self, candidate: Candidate) -> float:
        """The first look at a candidate's time."""
        if not self.timed:
            return 0.0
        return self.settled(candidate)._first_look_s(candidate.change.toggles)

    def _first_look_s(self, switched: bool) -> float:
        return self.blocks_s(FEWEST) if self.has_blocks(switched) else self.pairs_s(FEWEST)

    def has_blocks(self, switched: bool) -> bool:
        """Whether what can be switched is timed by blocks, or else by fresh runs."""
        return switched and self.pairs > 0 and self.blocks_s(FEWEST) <= self.pairs_s(FEWEST)

    def goes_on(self, candidate: Candidate) -> bool:
        """Whether the run that tells its numbers has room to tell its time as well."""
        toggle = replace(self.toggle, warmup=self.steps + 1, pairs=FEWEST)
        fits = self.length is None or pairs_within(toggle, self.length - 1) == FEWEST
        return candidate.goes_on and self.timed and fits

    def candidate_s(self, candidate: Candidate) -> float:
        """Its numbers for each set of options, and its time up to the first look."""
        saved_s = self.begin_s if self.goes_on(candidate) else 0.0
        return len(candidate.options) * self.run_s + self.timing_s(candidate) - saved_s

    def candidates_s(self, candidates: Sequence[Candidate]) -> float:
        """All of them."""
        return sum(map(self.candidate_s, candidates))

    @property
    def least_s(self) -> float:
        """One candidate that can be switched, with what comes before it; its trial is its proof."""
        return self.null_s + self.run_s + self.blocks_s(FEWEST)

    @property
    def warm(self) -> "Costs":
        """The costs at best: a first start may have waited for a cold disk for half its time."""
        return replace(self, start_s=self.start_s / 2)

    def as_seen(self, null_s: float, done: int) -> "Costs":
        """The costs by what two untouched runs took, each of so many steps.

        The first run met a cold disk. A script ends by itself where more is missing than what was
        taken for steps before its own were known.
        """
        costs = self.of_length(done) if 0 < done < self.steps - OTHERS else self
        start_s = max(SHORTEST_START_S, null_s / 2 - costs.steps * self.step_s)
        return replace(costs, start_s=min(self.start_s, start_s))

    def of_length(self, length: int) -> "Costs":
        """The costs of a script that ends by itself: shorter blocks, and fewer in a process."""
        steps = min(self.toggle.steps, max(1, self._longest_block(length)))
        toggle = replace(self.toggle, steps=steps)
        return replace(self, steps=min(self.steps, length), toggle=toggle, length=length)

    @property
    def _longest(self) -> int:
        """Steps of a block, if all of them shall not take too long, and the script has them."""
        longest = int(LONGEST_BLOCKS * self.run_s / (2 * MOST * self.step_s))
        return longest if self.length is None else min(longest, self._longest_block(self.length))

    def _longest_block(self, length: int) -> int:
        """Steps of a block, if a process of so many has a first look's blocks."""
        room = length - 1 - replace(self.toggle, steps=0).length(2 * FEWEST)
        return room // (2 * FEWEST)

    def with_compiling(self, seconds: float) -> "Costs":
        """What runs cost where what is kept compiles first."""
        return replace(self, later_s=self.later_s + seconds)

    def affordable(self, left_s: float, toggles: bool, known: int = 0) -> int:
        """How many pairs fit into what is left, with those known, and at most the last look's."""
        if not toggles:
            return min(LOOKS[-1], int(left_s / self.pairs_s(1)))
        fitting = [look for look in LOOKS if self.blocks_s(look - known) <= left_s]
        return max(fitting, default=0)

    def looks(self, left_s: float, toggles: bool, known: int = 0) -> tuple[int, ...]:
        """When to look at pairs; the first look is worth going over the budget."""
        return looks_within(max(FEWEST, self.affordable(left_s, toggles, known)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a search will take: at least if nothing holds, at most if all is timed and proved."""

    fewest_runs: int
    most_runs: int
    least_s: float
    most_s: float


def toggled_steps(toggle: Toggle) -> int:
    """Steps of a run with all its pairs of blocks."""
    return toggle.length(2 * toggle.pairs)


def pairs_within(toggle: Toggle, steps: int) -> int:
    """Pairs of blocks that so many steps have room for, at most as many as are wanted."""
    return next((n for n in range(toggle.pairs, 0, -1) if toggle.length(2 * n) <= steps), 0)


def choose(start_s: float, step_s: float, steps: int | None = None) -> Costs:
    """Runs of a sensible length for a script with such steps, unless the user names one.

    All blocks of short steps together take about as long as the script to start, if that is some
    ten seconds or more.
    """
    timed = _within(RUN_SECONDS / step_s, *STEPS)
    shortest_s, longest_s = BLOCK_SECONDS
    block_s = min(longest_s, max(shortest_s, start_s / (2 * MOST)))
    lead = int(step_s < LONG_STEP_S)
    block = _within(block_s / step_s, 1 + lead, LONGEST_BLOCK)
    before = _within(TOGGLE_SECONDS / step_s, *TOGGLE_STEPS)
    return Costs(start_s, step_s, steps or WARMUP + timed, Toggle(block, before, lead))


def estimate(costs: Costs, candidates: Sequence[Candidate]) -> Estimate:
    """What to expect; close answers take more pairs than the first look, kept changes more runs."""
    tries = sum(len(each.options) for each in candidates)
    timed = sum(_timed_runs(costs.settled(each), each) for each in candidates)
    fewest = NULL_RUNS + tries
    least_s = fewest * costs.run_s
    most_s = costs.null_s + costs.candidates_s(candidates) + costs.proof_s(switched=False)
    return Estimate(fewest, fewest + MOVED_RUNS + timed + 2 * FEWEST, least_s, most_s)


def _timed_runs(costs: Costs, candidate: Candidate) -> int:
    """Runs up to the first look, beside those that tell its numbers."""
    if candidate.goes_on:
        return 0
    return 1 if costs.has_blocks(candidate.change.toggles) else 2 * FEWEST


def within(
    costs: Costs, candidates: Sequence[Candidate], left_s: Callable[..., float]
) -> list[Candidate]:
    """The first candidates that there is room for; ``left_s`` is what the proof of some leaves.

    Each has its first set of options, and more of them where that takes no other's room.
    """
    chosen: list[Candidate] = []
    for each in candidates:
        more = [*chosen, each.first(1)]
        if costs.candidates_s(more) <= left_s(*more):
            chosen = more
    whole = {each.change.name: each for each in candidates}
    for place, each in enumerate(chosen):
        wanted = whole[each.change.name]
        for number in range(2, len(wanted.options) + 1):
            wider = [*chosen[:place], wanted.first(number), *chosen[place + 1 :]]
            if costs.candidates_s(wider) > left_s(*wider):
                break
            chosen = wider
    return chosen


def _within(number: float, low: int, high: int) -> int:
    return min(high, max(low, math.ceil(number)))
