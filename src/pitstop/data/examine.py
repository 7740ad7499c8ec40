"""Examine a dataset: run every rule, tell layout and numbers in tables, the answer first. Pure."""

from collections.abc import Iterator, Sequence

import pitstop.data.rules
from pitstop.core.finding import Finding, Severity
from pitstop.core.report import Report, Table
from pitstop.core.rule import load_rules
from pitstop.core.units import binary_bytes, count, milliseconds
from pitstop.data import needs
from pitstop.data.dataset import Dataset, Role
from pitstop.data.layout import main_files
from pitstop.data.wording import number

RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
FLOAT32_BYTES = 4


def examine(dataset: Dataset, beside: Sequence[Finding] = ()) -> Report:
    """Everything the rules say about a dataset; ``beside`` is what another room has found."""
    rules = load_rules(pitstop.data.rules)
    found = [*beside, *(finding for rule in rules for finding in rule(dataset))]
    findings = tuple(sorted(found, key=lambda each: (RANK[each.severity], each.code)))
    codes = {finding.code for finding in findings}
    worst = findings[0] if findings else None
    return Report(
        command="data",
        verdict=_verdict(dataset, findings),
        why=worst.message if worst else "",
        next=worst.cure if worst else "",
        tables=tuple(_tables(dataset)),
        findings=findings,
        notes=tuple(_notes(dataset)),
        skipped=dataset.skipped,
        docs={rule.code: rule.doc for rule in rules if rule.code in codes},
    )


def _verdict(dataset: Dataset, findings: Sequence[Finding]) -> str:
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    if errors:
        beside = f", {count(warnings, 'warning')} beside" if warnings else ""
        return f"This dataset is broken: {count(errors, 'error')}{beside}."
    if warnings:
        return f"This dataset can be used, with {count(warnings, 'warning')}."
    if not dataset.files and not dataset.stores:
        return "Nothing could be looked at: these files are of kinds that are not read here."
    if dataset.opened < dataset.files:
        opened = f"{dataset.opened:,} of {number(dataset.files, 'file')}"
        return f"Nothing is wrong with the {opened} that were opened."
    stores = f", {number(len(dataset.stores), 'store')}" if dataset.stores else ""
    return f"Nothing is wrong with this dataset: {number(dataset.files, 'file')}{stores}."


def _tables(dataset: Dataset) -> Iterator[Table]:
    if dataset.files:
        yield _layout(dataset)
    if dataset.stores:
        yield _stores(dataset)
    if dataset.roles:
        yield _roles(dataset)
        yield _memory(dataset)
        yield _feeding(dataset)


def _layout(dataset: Dataset) -> Table:
    """One row for each split: what it holds."""
    rows = []
    for split in dict.fromkeys(place.split for place in dataset.places):
        places = [place for place in dataset.places if place.split == split]
        items = {place.item for place in places if place.count}
        if not items and not split:
            continue  # folders of annotations and the like
        roles = dict.fromkeys(place.role for place in places if place.role)
        lengths = [files.count for place in places if (files := main_files(place.folder))]
        frames = _spread(lengths) if dataset.layout == "clips" else "n/a"
        size = sum(files.bytes for place in places for files in place.folder.files)
        rows.append(
            (
                split or "(no split)",
                f"{len(items):,}" if items - {""} else "n/a",
                ", ".join(roles) or "n/a",
                f"{sum(place.count for place in places):,}",
                frames,
                binary_bytes(size),
            )
        )
    columns = ("clips or classes", "roles", "files", "frames a clip", "on disk")
    return Table(f"layout: {dataset.layout}", columns, tuple(rows))


def _spread(lengths: Sequence[int]) -> str:
    if not lengths:
        return "n/a"
    low, high = min(lengths), max(lengths)
    return f"{low}" if low == high else f"{low} to {high}"


def _stores(dataset: Dataset) -> Table:
    rows = [
        (
            f"{store.layout} {store.path}".strip(),
            "n/a" if store.entries is None else f"{store.entries:,}",
            binary_bytes(store.bytes),
        )
        for store in dataset.stores
    ]
    return Table("stores", ("entries", "on disk"), tuple(rows))


def _roles(dataset: Dataset) -> Table:
    rows = [
        (
            role.name or role.kind,
            f"{role.opened:,} of {role.files:,}",
            f"{role.shape}{' and others' if role.shapes > 1 else ''}" or "n/a",
            "n/a" if role.read_ms is None else milliseconds(role.read_ms),
            _decoding(role),
        )
        for role in dataset.roles
    ]
    columns = ("opened", "mostly", "read", "decode on one core")
    return Table("a file", columns, tuple(rows))


def _decoding(role: Role) -> str:
    if role.decode_ms is None:
        return "n/a"
    others = [f"{name} {milliseconds(took_ms)}" for name, took_ms in role.faster]
    return ", ".join((f"{milliseconds(role.decode_ms)} ({role.decoder})", *others))


def _memory(dataset: Dataset) -> Table:
    """The whole dataset in memory, three ways, against the memory of this machine."""
    numbers = needs.decoded_numbers(dataset)
    ways = [
        ("as the files are, packed", float(dataset.bytes)),
        ("decoded, uint8", numbers),
        ("decoded, float32", FLOAT32_BYTES * numbers),
    ]
    rows = tuple((name, _size(size), _fits(size, dataset.memory_bytes)) for name, size in ways)
    memory = binary_bytes(dataset.memory_bytes) if dataset.memory_bytes else "this machine"
    return Table("all of it in memory", ("size", f"fits into {memory}"), rows)


def _size(size: float) -> str:
    return binary_bytes(size) if size else "n/a"


def _fits(size: float, memory_bytes: int) -> str:
    if not size or not memory_bytes:
        return "n/a"
    return "yes" if size <= needs.MOST_OF_MEMORY * memory_bytes else "no"


def _feeding(dataset: Dataset) -> Table:
    took_ms, workers = needs.sample_ms(dataset), needs.workers_needed(dataset)
    files = sum(needs.files_of_a_sample(dataset, role) for role in dataset.roles)
    rows = [
        ("samples", f"{needs.samples(dataset):,}"),
        ("files or frames a sample", f"{files:,}"),
        ("a sample, read and decoded on one core", milliseconds(took_ms) if took_ms else "n/a"),
        (f"a batch of {dataset.batch} as float32", _size(needs.batch_bytes(dataset))),
    ]
    if dataset.step_ms:
        told = (
            "n/a"
            if workers is None
            else f"{workers} (this machine: {count(dataset.cores, 'core')})"
        )
        rows.append((f"workers for a step of {dataset.step_ms:g} ms", told))
    return Table("feeding a model", ("",), tuple(rows))


def _notes(dataset: Dataset) -> Iterator[str]:
    if dataset.opened < dataset.files and dataset.opened:
        opened = f"{dataset.opened:,} of {number(dataset.files, 'file')}"
        yield f"{opened} were opened, spread evenly; --sample 0 opens them all."
    if dataset.layout == "clips" and not dataset.window_given:
        yield f"A sample is taken to be {dataset.window} frames; --window says otherwise."
    undecoded = [
        role for role in dataset.roles if role.kind == "picture" and role.decode_ms is None
    ]
    if undecoded:
        yield "Pictures were not decoded: pip install pillow. Only their ends were looked at."
    if any(role.kind == "video" and role.decode_ms is None for role in dataset.roles):
        yield "Videos were not decoded: pip install av. Only their boxes were followed."
    stored = {store.path for store in dataset.stores}
    unknown = [place.folder for place in dataset.places if place.folder.path not in stored]
    if others := sum(folder.others for folder in unknown):
        yield f"Not looked at: {number(others, 'file')} of other kinds, such as tar, dat or h5."
    if dataset.roles and not dataset.step_ms:
        yield "--step-ms N --batch B says how many workers a step of N ms needs."
    yield from (
        f"{store.layout} {store.path}".strip() + f": {store.note}"
        for store in dataset.stores
        if store.note
    )
