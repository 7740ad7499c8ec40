"""Collect: read a recording's files back as Evidence. Needs no torch, and survives a torn file."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from pitstop.core.evidence import (
    Break,
    Cache,
    Compiled,
    Evidence,
    Line,
    Loader,
    Memory,
    Optimizer,
    Sensor,
)
from pitstop.profile.group import Slice, by_the_gpus_clock, group
from pitstop.profile.inspection import read_inspection
from pitstop.profile.stacks import answers

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
    busy = [each for each in found if each.steps]
    if busy:
        return tuple(sorted(busy, key=lambda each: each.rank))
    idle = found[0] if found else host
    return (replace(idle, stacks=tuple(answers(folder))),)


def _evidence(path: Path, warmup: int, host: Evidence) -> Evidence:
    notes = [value for value in lines(path) if isinstance(value, dict)]
    rows = [row for note in notes for row in note.get("slices", ())]
    slices = [each for each in map(_slice, rows) if each]
    trains = _training_loaders(notes)
    grouped = group(slices, trains)
    warmup = min(warmup, max(0, len(grouped.steps) - 1))
    rank = RANK.match(path.name)
    return replace(
        read_inspection(notes),
        rank=int(rank.group(1)) if rank else 0,
        step_kind=grouped.kind,
        step_events=grouped.events,
        steps=by_the_gpus_clock(grouped.steps, warmup),
        warmup_steps=warmup,
        start_s=grouped.start_s,
        validation_s=grouped.validation_s,
        saving_s=grouped.saving_s,
        left_out_slices=sum(note.get("gap", 0) for note in notes),
        loaders=tuple(_loaders(notes, trains)),
        optimizers=tuple(_optimizers(notes)),
        compiled=tuple(_compiled(notes)),
        breaks=tuple(_breaks(notes)),
        memory=(*host.memory, *_gpu_memory(slices)),
        sensors=host.sensors,
        others=host.others,
    )


def lines(path: Path) -> Iterator[Any]:
    """Every whole line of a file; the last may be torn where the process was killed."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


def _slice(value: Any) -> Slice | None:
    """A row that holds a slice, its microseconds as milliseconds; ``None`` for a damaged one."""
    try:
        if len(value) == len(COLUMNS) - 1:  # as recordings had it before cores were asked
            value = [*value[:CORE_WAIT], None, *value[CORE_WAIT:]]
        named = dict(zip(COLUMNS, value, strict=True))
        named["ended_s"] /= 1e6
        for each in TIMES:
            named[each] /= 1e3
        if type(named["losses"]) is not list:  # as recordings had it before there were several
            named["losses"] = [] if named["losses"] is None else [named["losses"]]
        for each in KNOWN_AT_TIMES:
            named[each] = None if named[each] is None else named[each] / 1e3
        return msgspec.convert(named, Slice, strict=False)
    except (TypeError, ValueError, msgspec.ValidationError):
        return None


def _fetched(notes: Sequence[dict[str, Any]]) -> dict[int, list[int]]:
    """What each loader last told, in the order in which it does."""
    told = {note["number"]: note["fetched"] for note in notes if "fetched" in note}
    return {number: [*numbers, *[0] * (TOLD - len(numbers))] for number, numbers in told.items()}


def _training_loaders(notes: Sequence[dict[str, Any]]) -> set[int]:
    """The loaders most of whose batches are followed by a backward pass, before the next one.

    Of the last batch of a validation that may be true as well, where training needs no loader.
    """
    told = _fetched(notes).items()
    return {number for number, (batches, _, _, _, _, learned, *_) in told if learned > batches / 2}


def _loaders(notes: Sequence[dict[str, Any]], trains: set[int]) -> Iterator[Loader]:
    counts = _fetched(notes)
    caches = {note["number"]: note["caches"] for note in notes if "caches" in note}
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
                "caches": tuple(
                    Cache(name, entries, Line(*place))
                    for name, entries, *place in caches.get(number, ())
                ),
            }
            yield msgspec.convert(_with_lines(note["loader"]) | fetched, Loader)


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
    memory, sensors, others = [], [], []
    for sample in lines(path):
        shares = [rss if pss is None else pss for _, rss, pss in sample["memory"]]
        memory.append(Memory(sample["at"], host_bytes=sum(shares)))
        sensors += [Sensor(sample["at"], gpu, *each) for gpu, each in enumerate(sample["gpus"])]
        others += [sample["others"]] if sample.get("others") is not None else []
    usual = median(others) if others else None
    return Evidence(memory=tuple(memory), sensors=tuple(sensors), others=usual)
