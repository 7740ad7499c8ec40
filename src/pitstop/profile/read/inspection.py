"""Inspection: the lines that the inspector wrote, read back as typed values."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import msgspec

from pitstop.core.evidence import (
    Discarded,
    Evidence,
    Gap,
    Kept,
    Kernel,
    Line,
    ModuleCall,
    NonFinite,
    Operation,
    Parameters,
    Sampled,
    Settings,
    Zeroed,
)

Row = TypeVar("Row")

PREPARED = {"inspected", "sampled", "gaps", "kept"}  # keys of what is told of steps


def read_inspection(notes: Sequence[dict[str, Any]]) -> Evidence:
    """Evidence with the last inspected step, what was kept and all samples filled in."""
    notes = _of_the_steps(notes)
    inspected = [note for note in notes if "inspected" in note]
    whole = [note for note in inspected if "operations" in note]  # others gave way to the script
    *earlier, last = whole or inspected or [{}]
    timeline = _last(notes, "gaps")  # of a step at nearly full speed: its kernels are truer
    calls = _calls(last, earlier)
    return Evidence(
        settings=_object(Settings, last.get("settings")),
        operations=tuple(_operations(last, earlier)),
        calls=calls,
        kernels=tuple(Kernel(*row) for row in timeline.get("kernels") or last.get("kernels", ())),
        transfers=tuple(Kernel(*row) for row in timeline.get("transfers", ())),
        gaps=tuple(_row(Gap, [*row[:3], row[3:]]) for row in timeline.get("gaps", ())),
        timeline_ms=timeline["timeline"] / 1e3 if "timeline" in timeline else None,
        zeroed=tuple(_row(Zeroed, row) for row in last.get("zeroed", ())),
        rebuilt=tuple(calls[position] for position in last.get("rebuilt", ())),
        kept=tuple(_row(Kept, row) for row in _last(notes, "kept").get("kept", ())),
        sampled=_sampled(notes),
        parameters=_object(Parameters, last.get("parameters")),
        non_finite=_object(NonFinite, _last(notes, "non_finite").get("non_finite")),
    )


def _of_the_steps(notes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The notes without what was seen in preparation, before the recorder knew the steps."""
    begin = max((place for place, note in enumerate(notes) if "anew" in note), default=0)
    return [*(note for note in notes[:begin] if not PREPARED & note.keys()), *notes[begin:]]


def _calls(last: dict[str, Any], earlier: Sequence[dict[str, Any]]) -> tuple[ModuleCall, ...]:
    """The module calls; those that got what they got in an earlier step as well are told."""
    before = [_row(ModuleCall, row) for note in earlier for row in note.get("calls", ())]
    known = {(each.path, each.content) for each in before if each.content}
    calls = (_row(ModuleCall, row) for row in last.get("calls", ()))
    return tuple(replace(each, again=(each.path, each.content) in known) for each in calls)


def _operations(last: dict[str, Any], earlier: Sequence[dict[str, Any]]) -> Iterator[Operation]:
    """The operations; on a CPU the least time of each, for a pause of the thread is none of it."""
    rows = [_row(Operation, row) for row in last.get("operations", ())]
    least: dict[Operation, float] = {}
    for note in earlier:
        for each in (_row(Operation, row) for row in note.get("operations", ())):
            same = replace(each, micros=0.0)
            least[same] = min(each.micros, least.get(same, each.micros))
    on_gpu = any(each.device_micros is not None for each in rows)
    for each in rows:
        micros = each.micros if on_gpu else least.get(replace(each, micros=0.0), each.micros)
        yield replace(each, micros=min(each.micros, micros))


def _last(notes: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    return next((note for note in reversed(notes) if key in note), {})


def _row(kind: type[Row], values: Sequence[Any]) -> Row:
    """A value of a type whose fields were written in their order."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return msgspec.convert(_with_lines(dict(zip(names, values, strict=False))), kind)


def _object(kind: type[Row], values: dict[str, Any] | None) -> Row | None:
    return msgspec.convert(_with_lines(values), kind) if values is not None else None


def _with_lines(values: dict[str, Any]) -> dict[str, Any]:
    """Values whose places in the source are lines again."""
    places = ("where", "kept_at")
    lines = {key: Line(*each) for key, each in values.items() if key in places}
    made = [(path, Line(*line)) for path, line in values.get("made", ())]
    through = [Line(*line) for line in values.get("through", ())]
    discards = [_row(Discarded, row) for row in values.get("discards", ())]
    return values | lines | {"made": made, "through": through, "discards": discards}


def _sampled(notes: Sequence[dict[str, Any]]) -> tuple[Sampled, ...]:
    """All samples of the script; while it waited for workers, theirs in their proportions."""
    script: Counter[tuple[Line, str, bool]] = Counter()
    workers: Counter[tuple[Line, str, bool]] = Counter()
    for note in notes:
        if "sampled" in note:
            counts = workers if note["sampled"] == "workers" else script
            for path, line, function, inside, waiting, count in note["lines"]:
                counts[Line(path, line, function), inside, waiting] += count
    if workers:
        waited = {row: count for row, count in script.items() if row[2]}
        scale = sum(waited.values()) / workers.total()
        script.subtract(waited)
        script.update({row: round(scale * count) for row, count in workers.items()})
    return tuple(
        Sampled(line, count, inside, waiting)
        for (line, inside, waiting), count in script.most_common()
        if count > 0
    )
