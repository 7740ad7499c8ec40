"""The two passes: facts of every file, then the rules; only where the cache has no answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from pitstop.core.finding import Finding
from pitstop.scan import worker
from pitstop.scan.cache import Entries, Facts, Result, digest, engine_digest
from pitstop.scan.facts import FileFacts
from pitstop.scan.pool import Pool
from pitstop.scan.worker import Job

KEPT_CHARACTERS = 8_000_000  # a tree takes some 55 bytes per character: 440 MB over all processes


@dataclass(frozen=True, slots=True)
class Checked:
    """What all rules said about all files, unfiltered."""

    findings: tuple[Finding, ...]
    unread: tuple[str, ...]  # a line for each file that is no Python of ours
    crashes: tuple[str, ...]  # a line for each rule that failed on a file


@dataclass
class Memory:
    """What is known from before, and what of it this run has used or added."""

    before: Entries
    now: Entries = field(default_factory=Entries)
    engine: bytes = field(default_factory=engine_digest)

    @property
    def changed(self) -> bool:
        """Whether the next run would find something else than this one did."""
        return self.now.facts.keys() != self.before.facts.keys() or (
            self.now.results.keys() != self.before.results.keys()
        )


def check(
    texts: Mapping[str, str],
    codes: frozenset[str],
    memory: Memory,
    pool: Pool,
    beside: FileFacts | None = None,
) -> Checked:
    """Both passes over the texts of a project, by file name; ``beside``: what is no source."""
    jobs = _jobs(texts)
    keys = [digest(memory.engine, job.name, job.text) for job in jobs]
    facts = _collect(jobs, keys, memory, pool)
    unread = [
        f"{job.name}: {each.problem}" for job, each in zip(jobs, facts, strict=True) if each.problem
    ]
    good = [index for index, each in enumerate(facts) if not each.problem]
    files = tuple(facts[index].data for index in good)
    files += (msgspec.msgpack.encode(beside),) if beside else ()
    whole = digest(*files, *sorted(codes))
    results = _check(
        [jobs[index] for index in good],
        [digest(keys[index], whole) for index in good],
        files,
        codes,
        memory,
        pool,
    )
    findings = [finding for each in results for finding in each.findings]
    crashes = [line for each in results for line in each.crashes]
    return Checked(tuple(findings), tuple(unread), tuple(crashes))


def _jobs(texts: Mapping[str, str]) -> list[Job]:
    """One job per file; trees are kept from pass to pass as long as there is room for them."""
    sizes = accumulate(len(text) for text in texts.values())
    return [
        Job(name, text, size < KEPT_CHARACTERS)
        for (name, text), size in zip(texts.items(), sizes, strict=True)
    ]


def _collect(jobs: list[Job], keys: list[bytes], memory: Memory, pool: Pool) -> list[Facts]:
    known = {**memory.before.facts, **memory.now.facts}
    new = [(key, job) for key, job in zip(keys, jobs, strict=True) if key not in known]
    answers = pool.run(worker.collect, [job for _, job in new])
    known.update(zip((key for key, _ in new), answers, strict=True))
    memory.now.facts = {key: known[key] for key in keys}
    return [known[key] for key in keys]


def _check(
    jobs: list[Job],
    keys: list[bytes],
    files: tuple[bytes, ...],
    codes: frozenset[str],
    memory: Memory,
    pool: Pool,
) -> list[Result]:
    known = {**memory.before.results, **memory.now.results}
    new = [(key, job) for key, job in zip(keys, jobs, strict=True) if key not in known]
    answers = pool.run(worker.check, [job for _, job in new], codes, shared=files)
    known.update(zip((key for key, _ in new), answers, strict=True))
    # A crash may be gone tomorrow without the file being changed: it is not remembered.
    memory.now.results = {key: known[key] for key in keys if not known[key].crashes}
    return [known[key] for key in keys]
