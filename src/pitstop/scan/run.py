"""Running a scan: paths in, a Report out; with fixes, also the files that would change."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.core.finding import Finding
from pitstop.core.progress import Progress
from pitstop.core.reading import read_regular
from pitstop.core.report import Report
from pitstop.core.units import count
from pitstop.scan import cache
from pitstop.scan.baseline import Baseline, Entry, read_baseline
from pitstop.scan.config import find_config
from pitstop.scan.decode import Encoding, UnreadableError, decode, encode
from pitstop.scan.facts import FileFacts
from pitstop.scan.files import (
    LARGEST_CONFIG_BYTES,
    File,
    Found,
    find_files,
    largest_bytes,
)
from pitstop.scan.fixing import apply_fixes, may_be_applied
from pitstop.scan.notebook import SUFFIX as NOTEBOOK
from pitstop.scan.notebook import Notebook, read_notebook
from pitstop.scan.passes import Memory, check
from pitstop.scan.pins import newest_torch
from pitstop.scan.plugins import rule_plugins
from pitstop.scan.pool import Pool
from pitstop.scan.selection import EVERYTHING, Selection
from pitstop.scan.source import is_config
from pitstop.scan.wanted import Wanted
from pitstop.scan.worker import static_rules
from pitstop.scan.write import Change, may_be_written, write_changes

MOST_PASSES = 10  # fixes that still find something to fix after ten rounds undo each other


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for beyond the paths; what is empty is left to the configuration."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()  # added to the configuration's, as the next two are
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    use_cache: bool = True
    jobs: int = 0  # processes; 0: as many as there are cores
    progress: bool = False
    notes: bool = True  # report what is true and worth little, too
    baseline: Path | None = None  # findings that it knows are not reported


@dataclass(frozen=True, slots=True)
class Loaded:
    """One file with its text, and how to write it back."""

    file: File
    data: bytes
    text: str
    encoding: Encoding
    notebook: Notebook | None = None  # of which the text is the Python


@dataclass(frozen=True, slots=True)
class Scanned:
    """The outcome: what is left to report, and what fixing has changed in memory."""

    report: Report
    failed: bool = False  # there was something to scan, and none of it could be read
    applied: tuple[Finding, ...] = ()
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> before, after
    loaded: Mapping[str, Loaded] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()  # what a baseline would know all findings by

    def write(self) -> None:
        """Write the changed files, all or none."""
        changes = []
        for name, (_, after) in self.changes.items():
            file = self.loaded[name]
            changes.append(Change(file.file.path, file.data, encode(after, file.encoding)))
        write_changes(changes)


def scan(paths: Sequence[Path], options: Options = Options()) -> Report:
    """Scan files and folders and report what was found; nothing is written."""
    return scan_and_fix(paths, options, fix=False).report


def scan_and_fix(
    paths: Sequence[Path], options: Options, fix: bool = True, unsafe: bool = False
) -> Scanned:
    """Scan, apply fixes in memory until none is left, and report what remains."""
    selection, exclude = _settle(paths, options)
    codes = frozenset(rule.code for rule in selection.rules(static_rules()))
    found = find_files(paths, exclude)
    baseline = read_baseline(options.baseline) if options.baseline else Baseline()
    loaded = _load(found)
    notebooks = {name: each.notebook for name, each in loaded.items() if each.notebook}
    wanted = Wanted(selection, notebooks, baseline)
    store = cache.cache_file(paths)
    memory = Memory(cache.load(store) if options.use_cache else cache.Entries())
    beside = FileFacts("", "", newest_torch=_newest_torch(found.pins))
    texts = {name: each.text for name, each in loaded.items()}
    applied: list[Finding] = []
    with (
        Progress(2 * len(texts), options.progress) as progress,
        Pool(options.jobs, progress.advance) as pool,
    ):
        checked = check(texts, codes, memory, pool, beside)
        if options.use_cache and memory.changed:
            cache.save(store, memory.now)
        told = wanted.of(checked.findings, texts)
        for _ in range(MOST_PASSES if fix else 0):
            fixed = apply_fixes(_writable(texts, loaded), told.findings, unsafe)
            if not fixed.applied:
                break
            applied += fixed.applied
            texts = {**texts, **fixed.texts}
            checked = check(texts, codes, memory, pool, beside)
            told = wanted.of(checked.findings, texts)
    findings = told.findings
    changes = {
        name: (loaded[name].text, text) for name, text in texts.items() if text != loaded[name].text
    }
    unread = (*found.unread, *checked.unread)
    skipped = (*rule_plugins().problems, *found.skipped, *unread, *checked.crashes)
    skipped += tuple(_left_alone(findings, loaded, unsafe) if fix else ())
    read = len(texts) - len(checked.unread)
    shown = [each for each in findings if options.notes or each.severity != "note"]
    known = len(told.entries) - len(findings)
    notes = _notes(len(findings) - len(shown), known, options.baseline)
    report = _report(shown, skipped, read, len(unread), notes)
    failed = bool(unread and not read)
    return Scanned(report, failed, tuple(applied), changes, loaded, told.entries)


def _settle(paths: Sequence[Path], options: Options) -> tuple[Selection, tuple[str, ...]]:
    """The user's options over the project's configuration."""
    config = find_config(paths[0] if paths else Path())
    selection = Selection(
        options.select or config.select or (EVERYTHING,),
        (*config.ignore, *options.ignore),
        {**config.per_file_ignores, **options.per_file_ignores},
    )
    return selection, (*config.exclude, *options.exclude)


def _load(found: Found) -> dict[str, Loaded]:
    loaded = {}
    for file in found.files:
        try:
            data = read_regular(file.path, largest_bytes(file.path))
            text, encoding = decode(data)
            notebook = read_notebook(text) if file.path.suffix == NOTEBOOK else None
            text = notebook.text if notebook else text
            loaded[file.name] = Loaded(file, data, text, encoding, notebook)
        except FileNotFoundError:
            found.skipped.append(f"{file.name}: deleted while scanning")
        except OSError as error:
            found.unread.append(f"{file.name}: cannot be read ({error.strerror})")
        except UnreadableError as error:
            if not is_config(file.name):
                found.unread.append(f"{file.name}: {error}")
    return loaded


def _newest_torch(pins: Sequence[File]) -> tuple[int, int] | None:
    """The newest torch that the files beside the source allow; what cannot be read says nothing."""
    limits = []
    for file in pins:
        try:
            text = read_regular(file.path, LARGEST_CONFIG_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        limits.append(newest_torch(text))
    return max((limit for limit in limits if limit), default=None)


def _writable(texts: Mapping[str, str], loaded: Mapping[str, Loaded]) -> dict[str, str]:
    """The files that a fix may change, also when others are named outright."""
    return {name: text for name, text in texts.items() if may_be_written(loaded[name].file.path)}


def _left_alone(
    findings: Sequence[Finding], loaded: Mapping[str, Loaded], unsafe: bool
) -> list[str]:
    """A line for each file whose fixes are wanted, and which must not be written."""
    names = {each.span.path for each in findings if each.span and may_be_applied(each, unsafe)}
    return [
        f"{name}: not fixed, since it is read-only or a link"
        for name in sorted(names)
        if not may_be_written(loaded[name].file.path)
    ]


def _notes(hidden: int, known: int, baseline: Path | None) -> Iterator[str]:
    if hidden:
        yield f"{count(hidden, 'note')} not shown: --all shows them"
    if known:
        yield f"{count(known, 'finding')} of {baseline} not shown"


def _report(
    findings: list[Finding], skipped: Sequence[str], files: int, unread: int, notes: Iterable[str]
) -> Report:
    docs = {rule.code: rule.doc for rule in static_rules()}
    fixable = sum(1 for each in findings if each.fix)
    safe = sum(1 for each in findings if each.fix and each.fix.safe)
    where = sum(1 for _ in {each.span.path for each in findings if each.span})
    verdict = f"{count(len(findings), 'finding')} in {where} of {count(files, 'file')}."
    if not findings:
        verdict = f"Nothing found in {count(files, 'file')}."
    if unread:
        verdict += f" {unread} could not be read."
    common = Counter(each.rule for each in findings).most_common(3)
    return Report(
        command="scan",
        verdict=verdict if files or unread else "No Python files found.",
        why=", ".join(f"{name} {number}" for name, number in common),
        next=_next(fixable, safe),
        findings=tuple(findings),
        skipped=tuple(skipped),
        notes=tuple(notes),
        docs={each.code: docs[each.code] for each in findings},
    )


def _next(fixable: int, safe: int) -> str:
    if safe:
        return f"pitstop scan --fix mends {safe} of them"
    if fixable:
        return f"pitstop scan --unsafe-fixes --diff shows how to mend {fixable} of them"
    return ""
