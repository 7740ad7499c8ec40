"""Groups: which slices of a recorded run make a step. Pure: slices in, steps out."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from math import isfinite

from pitstop.core.evidence import Step
from pitstop.profile.steps.pattern import KINDS, OUTSIDE, SELF_CUTTING, cycle_ends, shortest_cycle

MOST_LOSSES = 32  # of a step that are kept: critics step up to ten times as often
AHEAD = 1.02  # the GPU's time over the script's, from which on the script only fills a queue


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of the run between two cuts. Times in milliseconds; see ``recorder``."""

    ended_s: float
    kind: str  # what ended it
    number: int  # the optimizer, loader or module that did
    loader: int  # the loader whose batch it works on; -1: none
    inspected: bool
    wait: float
    forward: float
    backward: float
    optimizer: float
    saving: float
    other: float
    collective: float = 0.0  # in calls of torch.distributed, part of the phases above
    core_wait: float | None = None  # for a core to run on, part of the phases above
    peak: int | None = None
    reserved: int | None = None
    losses: tuple[float, ...] = ()  # roots of backward
    gradient_norm: float | None = None
    scale: float | None = None
    device: float | None = None
    dry: float | None = None

    @property
    def total(self) -> float:
        """All of it but saving."""
        return self.wait + self.forward + self.backward + self.optimizer + self.other


@dataclass(frozen=True, slots=True)
class Grouped:
    """The steps of a run, and what belongs to none."""

    kind: str = ""
    events: int = 1  # of that kind, that make a step
    steps: tuple[Step, ...] = ()
    start_s: float = 0.0
    validation_s: float = 0.0
    saving_s: float = 0.0


def group(slices: Sequence[Slice], training: Set[int] = frozenset()) -> Grouped:
    """Cut the run into steps by the strongest kind of event in it.

    ``training`` are the loaders whose batches are learned from; work on those of others is none.
    """
    seen = Counter(each.kind for each in slices)
    kind = next((kind for kind in KINDS if seen[kind]), "")
    if not kind:
        return Grouped(start_s=sum(each.total for each in slices) / 1e3)
    begin = _first_work(slices)
    loaders = training if kind == "optimizer" else _busiest_loader(slices)
    places = [place for place, each in enumerate(slices) if each.kind == kind]
    numbers = [slices[place].number for place in places]
    ends = {places[end] for end in cycle_ends(numbers)}  # the last event of each cycle
    learns = kind == "module" and any(each.backward for each in slices)  # without an optimizer
    steps: list[Step] = []
    current: list[Slice] = []
    apart = [sum(each.total for each in slices[:begin]), 0.0]  # start-up, and validation
    for place, each in enumerate(slices[begin:], begin):
        if _is_apart(each, kind, loaders):
            apart[bool(steps)] += each.total  # before the first step, or between two
            continue
        current.append(each)
        if place in ends:
            if learns and not any(each.backward for each in current):
                apart[bool(steps)] += sum(each.total for each in current)
            else:
                steps.append(_step(current))
            current = []
    saving = sum(each.saving for each in slices[begin:])
    events = shortest_cycle(numbers)
    return Grouped(kind, events, tuple(steps), apart[0] / 1e3, apart[1] / 1e3, saving / 1e3)


def _is_apart(piece: Slice, kind: str, loaders: Set[int]) -> bool:
    """Whether a slice belongs to no step: validation, preparation, or outside of what is marked.

    After a validation the training may go on without a loader; so a slice that learns is a step's.
    Model calls that ended a slice, though they end no step, came before the first one.
    """
    if piece.kind == OUTSIDE:
        return True
    if kind == "marked" or piece.kind == kind == "optimizer" or piece.backward:
        return False
    if piece.loader >= 0 and piece.loader not in loaders:
        return True
    return piece.kind == "module" != kind


def _first_work(slices: Sequence[Slice]) -> int:
    """The first slice that works on a batch, or that follows the first model call."""
    for place, each in enumerate(slices):
        if each.loader >= 0 or each.kind in SELF_CUTTING or each.backward:
            return place
        if each.kind == "start":
            return place + 1
    return 0


def _busiest_loader(slices: Sequence[Slice]) -> set[int]:
    """Of an inference run: the loader that most of the time is spent on."""
    spent: Counter[int] = Counter()
    for each in slices:
        if each.loader >= 0:
            spent[each.loader] += round(each.total * 1e3)
    return {loader for loader, _ in spent.most_common(1)}


def _step(slices: Sequence[Slice]) -> Step:
    losses = [loss for each in slices for loss in each.losses]
    norm = _last(each.gradient_norm for each in slices)
    scale = _last(each.scale for each in slices)
    return Step(
        total_ms=sum(each.total for each in slices),
        data_wait_ms=sum(each.wait for each in slices),
        dry_ms=_sum(each.dry for each in slices),
        collective_ms=sum(each.collective for each in slices),
        core_wait_ms=_sum(each.core_wait for each in slices),
        forward_ms=sum(each.forward for each in slices),
        backward_ms=sum(each.backward for each in slices),
        optimizer_ms=sum(each.optimizer for each in slices),
        other_ms=sum(each.other for each in slices),
        device_ms=_sum(each.device for each in slices),
        loss=_finite(_last(losses)),
        earlier_losses=tuple(map(_finite, losses[-MOST_LOSSES:-1])),
        loss_finite=all(map(isfinite, losses)),
        gradient_norm=_finite(norm),
        scale=_finite(scale),
        inspected=any(each.inspected for each in slices),
        ended_s=slices[-1].ended_s,
    )


def by_the_gpus_clock(steps: tuple[Step, ...], warmup: int) -> tuple[Step, ...]:
    """The steps of a script that runs ahead of its GPU, as long as the GPU took for them.

    A script that seldom waits for the GPU sees how long it takes to queue work, not to do it. What
    lies between two steps and is in none, such as saving, is on the GPU's clock alone: so most
    steps must show it.
    """
    judged = [step for step in steps[warmup:] if not step.inspected]
    ahead = sum((step.device_ms or 0.0) > AHEAD * step.total_ms for step in judged)
    if 2 * ahead <= len(judged):
        return steps
    return tuple(map(_by_the_gpus_clock, steps))


def _by_the_gpus_clock(step: Step) -> Step:
    if step.device_ms is None:
        return step
    return replace(step, total_ms=step.device_ms, queued_ms=step.device_ms - step.total_ms)


def _last(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return known[-1] if known else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of values that are all known."""
    found = list(values)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None
