"""Commands: run two commands in adjacent pairs, each time in a fresh process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pitstop.compare import pairs
from pitstop.compare.quantities import Quantity, Sample, sample
from pitstop.compare.record import Recording, check, record
from pitstop.core.errors import PitstopError

REHEARSED_STEPS = 1  # inspected ones, for the shapes


@dataclass(frozen=True, slots=True)
class Setting:
    """How the runs are made."""

    folder: Callable[[str], Path]  # a fresh folder for the next recording of this side
    steps: int | None = None
    warmup: int = 3
    looks: Sequence[int] = pairs.LOOKS


def rehearse(
    command: Sequence[str], side: str, setting: Setting, own: Sequence[Quantity]
) -> Recording:
    """A first run that does not count: it fills the caches, tells the shapes, fails early."""
    folder = setting.folder(side)
    inspect = REHEARSED_STEPS
    found = check(record(command, folder, setting.steps, setting.warmup, inspect), side)
    seen = sample(found)
    if not seen.evidence.steady and not own:
        raise PitstopError(
            f"{side} finished {len(seen.evidence.steps)} steps, none of them after warm-up and "
            "undisturbed: give more --steps, or a --metric to read from its output"
        )
    for each in own:
        if each.read(seen) is None:
            name = each.quality.name
            early = " (--steps ends it before its last lines)" if setting.steps else ""
            raise PitstopError(f"{side} printed no number for {name}{early}: check the pattern")
    return found


def run_pairs(
    commands: tuple[Sequence[str], Sequence[str]],
    setting: Setting,
    settled: Callable[[pairs.Pairs[Sample]], bool],
    on_run: Callable[[str], None],
) -> pairs.Pairs[Sample]:
    """The pairs, until ``settled`` or the last look; ``on_run`` hears which side runs next."""

    def once(command: Sequence[str], side: str) -> Sample:
        on_run(side)
        found = record(command, setting.folder(side), setting.steps, setting.warmup)
        return sample(check(found, side))

    first, second = commands
    runs = (lambda: once(first, "A"), lambda: once(second, "B"))
    return pairs.measure(*runs, settled, setting.looks)
