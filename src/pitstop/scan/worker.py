"""The worker: the two passes over a few files, in this process or in another."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

import pitstop.scan.rules
from pitstop.core.finding import Finding
from pitstop.core.rule import Rule, load_rules
from pitstop.scan.cache import Facts, Result
from pitstop.scan.decode import UnreadableError
from pitstop.scan.facts import FileFacts, read_facts
from pitstop.scan.parse import parse, parse_and_keep
from pitstop.scan.plugins import rule_plugins
from pitstop.scan.project import Project
from pitstop.scan.shared import Shared
from pitstop.scan.source import Source
from pitstop.scan.unused import as_notes


@dataclass(frozen=True, slots=True)
class Job:
    """One file to work on."""

    name: str
    text: str
    keep: bool = True  # its tree, from the first pass to the second


@lru_cache(maxsize=1)
def static_rules() -> tuple[Rule[Source], ...]:
    """Every static rule, ours and those of plugins, loaded once per process."""
    return (*load_rules(pitstop.scan.rules), *rule_plugins().found)


def _parse(job: Job) -> Source:
    return (parse_and_keep if job.keep else parse)(job.text, job.name)


def collect(jobs: Sequence[Job]) -> list[Facts]:
    """First pass: what each file tells about the project."""
    return [_facts(job) for job in jobs]


def _facts(job: Job) -> Facts:
    try:
        return Facts(msgspec.msgpack.encode(read_facts(_parse(job))))
    except UnreadableError as error:
        return Facts(problem=str(error))
    except RecursionError:
        return Facts(problem="nested too deeply to be read")
    except Exception as error:  # noqa: BLE001 one file must not cost the others
        return Facts(problem=f"could not be understood ({_in_a_line(error)})")


@lru_cache(maxsize=1)
def join(shared: Shared) -> Project:
    """The project of the second pass; the same for all of a process's jobs."""
    decoder = msgspec.msgpack.Decoder(FileFacts)
    return Project.of(decoder.decode(each) for each in shared.read())


def check(jobs: Sequence[Job], shared: Shared, codes: frozenset[str]) -> list[Result]:
    """Second pass: what the rules with these codes say about each file."""
    project = join(shared)
    rules = [rule for rule in static_rules() if rule.code in codes]
    return [_check(job, project, rules) for job in jobs]


def _check(job: Job, project: Project, rules: list[Rule[Source]]) -> Result:
    try:
        source = _parse(job).in_project(project)
    except Exception as error:  # noqa: BLE001 parsed in the first pass: memory is short now
        return Result([], [f"{job.name}: could not be read again ({_in_a_line(error)})"])
    findings: list[Finding] = []
    crashes = []
    for rule in rules:
        try:
            findings += rule(source)
        except Exception as error:  # noqa: BLE001 one broken rule must not cost the others
            what = _in_a_line(error)
            crashes.append(f"{job.name}: rule {rule.code} {rule.name} failed ({what})")
    return Result(as_notes(source, findings), crashes)


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
