"""Collect: read a recording's files back as Evidence. Needs no torch, and survives a torn file."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pitstop.core.evidence import Evidence, Loader, Memory, Sensor
from pitstop.profile.group import Slice, group, training_loaders
from pitstop.profile.inspection import read_inspection
from pitstop.profile.stacks import answers

RANK = re.compile(r"rank(\d+)-")


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
    grouped = group(slices)
    rank = RANK.match(path.name)
    return replace(
        read_inspection(notes),
        rank=int(rank.group(1)) if rank else 0,
        step_kind=grouped.kind,
        steps=grouped.steps,
        warmup_steps=min(warmup, max(0, len(grouped.steps) - 1)),
        start_s=grouped.start_s,
        validation_s=grouped.validation_s,
        saving_s=grouped.saving_s,
        left_out_slices=sum(note["gap"][0] for note in notes if "gap" in note),
        loaders=tuple(_loaders(slices, notes)),
        memory=(*host.memory, *_gpu_memory(slices)),
        sensors=host.sensors,
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
    """A line that holds a slice; ``None`` for one that does not, or was damaged."""
    if not isinstance(value, list):
        return None
    try:
        named = dict(zip(Slice.__dataclass_fields__, value, strict=True))
        return msgspec.convert(named, Slice, strict=False)
    except (ValueError, msgspec.ValidationError):
        return None


def _loaders(slices: Sequence[Slice], notes: Sequence[dict[str, Any]]) -> Iterator[Loader]:
    fetched = Counter(each.loader for each in slices if each.wait)
    trains = training_loaders(slices)
    for note in notes:
        if "loader" in note:
            number = note["number"]
            yield msgspec.convert(
                note["loader"] | {"batches": fetched[number], "trains": number in trains}, Loader
            )


def _gpu_memory(slices: Sequence[Slice]) -> Iterator[Memory]:
    for each in slices:
        if each.peak is not None:
            reserved = each.reserved
            yield Memory(each.ended_s, gpu_peak_bytes=each.peak, gpu_reserved_bytes=reserved)


def _host(path: Path) -> Evidence:
    """Memory and sensors over the whole run; a page shared by several processes counts once."""
    memory, sensors = [], []
    for sample in lines(path):
        shares = [rss if pss is None else pss for _, rss, pss in sample["memory"]]
        memory.append(Memory(sample["at"], host_bytes=sum(shares)))
        sensors += [Sensor(sample["at"], gpu, *each) for gpu, each in enumerate(sample["gpus"])]
    return Evidence(memory=tuple(memory), sensors=tuple(sensors))
