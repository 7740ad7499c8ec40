"""Run report: machine, source and recording of a run, brought together as one Report."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.finding import Finding
from pitstop.core.machine import Machine
from pitstop.core.merge import Merged, Place, merge
from pitstop.core.report import Report
from pitstop.diagnose.ledger.ceilings import by_the_ceilings
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.excerpts import Excerpts, read_excerpts
from pitstop.diagnose.told.report import build_report, by_signal
from pitstop.doctor.limits import with_limits
from pitstop.doctor.read import read_hardware
from pitstop.profile.read.collect import collect
from pitstop.profile.read.runs import Run
from pitstop.profile.start.reached import why_unseen
from pitstop.scan.run import scan

Value = TypeVar("Value")

MACHINE = "machine.json"
SOURCE = "source.json"
MOST_FILES = 60  # of the user's that ran: a scan of these takes a second
WATCH_IT = "profile the command that trains: SCRIPT, -m MODULE, torchrun or accelerate launch"
NAMED = 3  # cleared suspicions, and files of open ones, said by name


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a run, as it was when it ran: what is shown of it, and what it lets suspect."""

    excerpts: Excerpts = field(default_factory=Excerpts)
    suspected: tuple[Finding, ...] = ()


def keep_surroundings(folder: Path, run: Run) -> None:
    """Write down machine and source beside a recording made just now, to judge it anywhere."""
    machine, _ = with_limits(read_hardware())
    store.save(folder / MACHINE, machine)
    ranks = collect(folder, run.warmup)
    suspected = _suspected(_seen(Recording(ranks, machine)))
    store.save(folder / SOURCE, Source(read_excerpts(ranks), tuple(suspected)))


def report_of(folder: Path, run: Run) -> Report:
    """The report of a recording: what was measured meets what the source gives rise to suspect."""
    machine = _beside(folder / MACHINE, Machine)
    source = _beside(folder / SOURCE, Source)
    ranks = collect(folder, run.warmup)
    if not by_signal(run.exit_code):  # it never hung, wherever it was when asked
        ranks = tuple(replace(each, stacks=()) for each in ranks)
    recording = Recording(tuple(by_the_ceilings(each, machine) for each in ranks), machine)
    seen = _seen(recording)
    found = diagnose(recording)
    merged = merge(source.suspected, found, seen)
    shown = merged.findings[: len(found)]
    here = str(Path.cwd())
    ended = run.exit_code
    report = build_report(recording, shown, run.name, ended, here, source.excerpts, run.typed)
    if not any(folder.glob("rank*")) and (unseen := why_unseen(folder)):
        report = replace(report, why=f"Nothing was seen: {unseen}.", next=WATCH_IT)
    return replace(report, notes=(*report.notes, *_on_the_source(merged)))


def _beside(path: Path, kind: type[Value]) -> Value:
    """What was written beside a recording; older ones lack some of it."""
    return store.load(path, kind) if path.exists() else kind()


def _on_the_source(merged: Merged) -> Iterator[str]:
    """What became of the suspicions that the source gave rise to."""
    if merged.cleared:
        names = ", ".join(map(_name, merged.cleared[:NAMED]))
        more = ", ..." if len(merged.cleared) > NAMED else ""
        yield f"suspected in the source, under 1 % of a step in this run: {names}{more}"
    open_ = [each for each in merged.findings if each.confidence == "suspected"]
    if open_:
        paths = sorted({each.span.path for each in open_ if each.span})
        where = " ".join(paths) if len(paths) <= NAMED else os.path.commonpath(paths)
        yield f"suspected in the source, not settled here: {len(open_)}; pitstop scan {where}"


def _name(finding: Finding) -> str:
    span = finding.span
    return f"{finding.code} at {Path(span.path).name}:{span.line}" if span else finding.code


def _seen(recording: Recording) -> dict[Place, float]:
    """The share of the step of every line that the run was seen at.

    A loader is charged with the wait for it and an optimizer with its steps, where each was built.
    How workers that begin anew would do is not seen where only one epoch has begun.
    """
    evidence, ledger = recording.evidence, recording.ledger
    shares: dict[Place, float] = defaultdict(float)
    if ledger is None:
        return shares
    for operation in evidence.operations:
        shares[operation.where.path, operation.where.line] += 0.0
    for row in ledger.rows:
        shares[row.where.path, row.where.line] += ledger.share(row.ms)
    for loader in evidence.loaders:
        if loader.workers and loader.starts < 2:
            continue
        waited = evidence.mean_ms("data_wait_ms") if loader.trains else 0.0
        shares[loader.made.path, loader.made.line] += ledger.share(waited)
    for optimizer in evidence.optimizers:
        stepped = ledger.share(evidence.mean_ms("optimizer_ms"))
        shares[optimizer.made.path, optimizer.made.line] += stepped
    return shares


def _suspected(seen: Mapping[Place, float]) -> list[Finding]:
    """What the source of the files that ran gives rise to suspect, with absolute paths."""
    files = sorted({path for path, _ in seen if path and Path(path).is_file()})[:MOST_FILES]
    try:
        found = scan([Path(path) for path in files]).findings if files else ()
    except PitstopError:
        return []  # a scan is an extra here
    return [
        replace(each, span=replace(each.span, path=str(Path(each.span.path).resolve())))
        for each in found
        if each.span
    ]
