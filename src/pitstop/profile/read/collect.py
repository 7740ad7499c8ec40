"""Collect: read a recording's files back as Evidence. Needs no torch, and survives a torn file."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import msgspec

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import (
    Break,
    Cache,
    Compiled,
    Evidence,
    Headspace,
    Line,
    Loader,
    Memory,
    Optimizer,
    Sensor,
)
from pitstop.core.reading import read_regular
from pitstop.profile.read.inspection import read_inspection
from pitstop.profile.start.options import HEADSPACE
from pitstop.profile.start.stacks import answers
from pitstop.profile.steps.group import Slice, by_the_gpus_clock, group

Value = TypeVar("Value")

WRONG_KINDS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
RANK = re.compile(r"rank(\d+)-")
TOLD = 8  # numbers that a loader tells of itself; recordings of older releases have fewer
COLUMNS = tuple(Slice.__dataclass_fields__)
TIMES = ("wait", "forward", "backward", "optimizer", "saving", "other", "collective")
CORE_WAIT = COLUMNS.index("core_wait")
KNOWN_AT_TIMES = ("core_wait", "device", "dry")


def collect(folder: Path, warmup: int) -> tuple[Evidence, ...]:
    """One Evidence for each process that finished a step, by rank; else one that says so."""
    host = _host(folder / "host.jsonl")
    found = [_evidence(path, warmup, host) for path in sorted(folder.glob("rank*.jsonl"))]
    busy = sorted((each for each in found if each.steps), key=lambda each: each.rank)
    if busy:
        return (replace(busy[0], headspace=_headspace(folder / HEADSPACE)), *busy[1:])
    idle = found[0] if found else host
    return (replace(idle, stacks=tuple(answers(folder))),)


def _headspace(path: Path) -> Headspace | None:
    """What was measured after the run, if anything was."""
    told = next(lines(path), None)
    return _sound(lambda: msgspec.convert(told, Headspace)) if told else None


def _evidence(path: Path, warmup: int, host: Evidence) -> Evidence:
    told = [value for value in lines(path) if isinstance(value, dict)]
    notes = [note for note in told if _is_whole(note)]
    rows = [row for note in notes for row in note.get("slices", ())]
    slices = [each for each in map(_slice, rows) if each]
    trains = _training_loaders(notes)
    grouped = group(slices, trains)
    warmup = min(warmup, max(0, len(grouped.steps) - 1))
    rank = RANK.match(path.name)
    return replace(
        _told(notes, trains),
        rank=int(rank.group(1)) if rank else 0,
        step_kind=grouped.kind,
        step_events=grouped.events,
        steps=by_the_gpus_clock(grouped.steps, warmup),
        warmup_steps=warmup,
        start_s=grouped.start_s,
        validation_s=grouped.validation_s,
        saving_s=grouped.saving_s,
        unreadable=len(told) - len(notes) + len(rows) - len(slices),
        memory=(*host.memory, *_gpu_memory(slices)),
        sensors=host.sensors,
        others=host.others,
    )


def _told(notes: Sequence[dict[str, Any]], trains: set[int]) -> Evidence:
    """All that is told beside the steps."""
    return replace(
        read_inspection(notes),
        left_out_slices=sum(note.get("gap", 0) for note in notes),
        loaders=tuple(_loaders(notes, trains)),
        optimizers=tuple(_optimizers(notes)),
        compiled=tuple(_compiled(notes)),
        breaks=tuple(_breaks(notes)),
    )


def _is_whole(note: dict[str, Any]) -> bool:
    """Whether a line can be used; a damaged one is left out and counted, as a torn one is."""
    if not isinstance(note.get("slices", []), list):
        return False
    return _sound(lambda: _told([note], _training_loaders([note]))) is not None


def _sound(
    read: Callable[[], Value], measured: Callable[[Value], Value] = lambda found: found
) -> Value | None:
    """What is read, if every part of it has its type and is a number that can be measured."""
    try:
        found = read()
        store.check(measured(found))
    except (*WRONG_KINDS, PitstopError):
        return None
    return found


def lines(path: Path) -> Iterator[Any]:
    """Every whole line of a file; the last may be torn where the process was killed."""
    try:
        data = read_regular(path, store.LARGEST_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PitstopError(f"{path}: {error.strerror}: so this is no recording") from None
    for line in data.decode("utf-8", "replace").splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _slice(value: Any) -> Slice | None:
    """A row that holds a slice, its microseconds as milliseconds; ``None`` for a damaged one."""

    def read() -> Slice:
        row = value
        if len(row) == len(COLUMNS) - 1:  # as recordings had it before cores were asked
            row = [*row[:CORE_WAIT], None, *row[CORE_WAIT:]]
        named = dict(zip(COLUMNS, row, strict=True))
        named["ended_s"] /= 1e6
        for each in TIMES:
            named[each] /= 1e3
        if type(named["losses"]) is not list:  # as recordings had it before there were several
            named["losses"] = [] if named["losses"] is None else [named["losses"]]
        for each in KNOWN_AT_TIMES:
            named[each] = None if named[each] is None else named[each] / 1e3
        return msgspec.convert(named, Slice, strict=False)

    # A script's own numbers may be anything: a loss may be infinite, or a scale 2**127.
    return _sound(read, lambda found: replace(found, losses=(), gradient_norm=None, scale=None))


def _fetched(notes: Sequence[dict[str, Any]]) -> dict[int, list[int]]:
    """What each loader last told, in the order in which it does."""
    rows = [(note["number"], note["fetched"]) for note in notes if "fetched" in note]
    told = dict(msgspec.convert(rows, list[tuple[int, list[int]]]))
    return {number: [*numbers, *[0] * (TOLD - len(numbers))] for number, numbers in told.items()}


def _training_loaders(notes: Sequence[dict[str, Any]]) -> set[int]:
    """The loaders most of whose batches are followed by a backward pass, before the next one.

    Of the last batch of a validation that may be true as well, where training needs no loader.
    """
    told = _fetched(notes).items()
    return {number for number, (batches, _, _, _, _, learned, *_) in told if learned > batches / 2}


def _loaders(notes: Sequence[dict[str, Any]], trains: set[int]) -> Iterator[Loader]:
    counts = _fetched(notes)
    caches = dict(_caches(notes))
    for note in notes:
        if "loader" in note:
            number = note["number"]
            numbers = counts.get(number, [0] * TOLD)
            batches, size, shapes, starts, start_us, _, waited_us, computed_us = numbers
            fetched = {
                "batches": batches,
                "batch_bytes": size,
                "batch_shapes": shapes,
                "starts": starts,
                "start_ms": start_us / 1e3 / max(1, starts),
                "computes": min(1.0, computed_us / waited_us) if waited_us else None,
                "trains": number in trains,
                "caches": caches.get(number, ()),
            }
            yield msgspec.convert(_with_lines(note["loader"]) | fetched, Loader)


def _caches(notes: Sequence[dict[str, Any]]) -> Iterator[tuple[int, tuple[Cache, ...]]]:
    """What each loader found in its dataset's own caches."""
    for note in notes:
        if "caches" in note:
            rows = note["caches"]
            found = tuple(Cache(name, entries, Line(*place)) for name, entries, *place in rows)
            for each in found:
                store.check(each)
            yield msgspec.convert(note["number"], int), found


def _optimizers(notes: Sequence[dict[str, Any]]) -> Iterator[Optimizer]:
    for note in notes:
        if "optimizer" in note:
            yield msgspec.convert(_with_lines(note["optimizer"]), Optimizer)


def _with_lines(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings whose places in the source are lines again."""
    places = {key: Line(*settings[key]) for key in ("made", "used") if key in settings}
    return settings | places


def _compiled(notes: Sequence[dict[str, Any]]) -> Iterator[Compiled]:
    for note in notes:
        for path, line, name, *rest in note.get("compiled", ()):
            yield Compiled(Line(path, line, name), *rest)


def _breaks(notes: Sequence[dict[str, Any]]) -> Iterator[Break]:
    for note in notes:
        for path, line, name, reason, count in note.get("breaks", ()):
            yield Break(reason, count, Line(path, line, name))


def _gpu_memory(slices: Sequence[Slice]) -> Iterator[Memory]:
    inspected = False
    for each in slices:
        inspected = inspected or each.inspected
        if each.peak is not None:
            yield Memory(each.ended_s, None, each.peak, each.reserved, inspected)
            inspected = False


def _host(path: Path) -> Evidence:
    """Memory and sensors over the whole run; a page shared by several processes counts once."""
    samples = [each for each in map(_sample, lines(path)) if each]
    others = [each.others for each in samples if each.others is not None]
    return Evidence(
        memory=tuple(chain(*(each.memory for each in samples))),
        sensors=tuple(chain(*(each.sensors for each in samples))),
        others=median(others) if others else None,
    )


def _sample(told: Any) -> Evidence | None:
    """One sample of the host meter; ``None`` for a damaged one."""

    def read() -> Evidence:
        shares = [rss if pss is None else pss for _, rss, pss in told["memory"]]
        return Evidence(
            memory=(Memory(told["at"], host_bytes=sum(shares)),),
            sensors=tuple(Sensor(told["at"], gpu, *each) for gpu, each in enumerate(told["gpus"])),
            others=told.get("others"),
        )

    return _sound(read)
