"""SARIF 2.1.0: findings for code hosts and editors, with fingerprints that survive moved lines."""

import hashlib
import json
import re
from collections import Counter
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from pitstop import __version__
from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.core.printable import printable_json
from pitstop.core.report import Report

SUFFIX = ".sarif"
MARK = '"name": "pitstop"'  # in what was written by this
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note"}
ROOT = "%SRCROOT%"  # what code hosts call the top of the repository
LINE_NUMBER = re.compile(r":\d+")


def render(report: Report) -> str:
    """The report as a SARIF log with one run."""
    codes = sorted({finding.code for finding in report.findings})
    names = {finding.code: finding.rule for finding in report.findings}
    driver = {
        "name": "pitstop",
        "version": __version__,
        "rules": [_rule(code, names[code], report.docs.get(code, "")) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder of the scan."}}},
        "results": _results(report, codes),
        "invocations": [{"executionSuccessful": True, **_skipped(report)}],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return printable_json(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _rule(code: str, name: str, doc: str) -> dict[str, Any]:
    summary, _, rest = doc.partition("\n")
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in name.split("-")),
        "shortDescription": {"text": summary or name},
        "fullDescription": {"text": rest.strip() or summary or name},
        "help": {"text": doc or name, "markdown": f"```text\n{doc or name}\n```"},
        "properties": {"tags": ["performance", name]},
    }


def _results(report: Report, codes: list[str]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        print_of_it = _fingerprint(finding)
        seen[print_of_it] += 1
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": codes.index(finding.code),
            "level": LEVELS[finding.severity],
            "message": {"text": finding.message},
            "partialFingerprints": {"pitstop/v1": f"{print_of_it}:{seen[print_of_it]}"},
        }
        if finding.span is not None:
            result["locations"] = [_location(finding.span)]
            if finding.fix is not None:
                result["fixes"] = [_fix(finding.fix, finding.span.path)]
        results.append(result)
    return results


def _fingerprint(finding: Finding) -> str:
    """The same after lines were added above: rule, file and message, without line numbers."""
    path = finding.span.path if finding.span else finding.item
    text = "\0".join((finding.code, path, LINE_NUMBER.sub("", finding.message)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _artifact(path: str) -> dict[str, str]:
    """A relative path hangs below the root; an absolute one is a file URI of its own."""
    slashes = path.replace("\\", "/")
    uri = quote(slashes.encode("utf-8", "surrogateescape"))  # a name need not be text
    if PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute():
        return {"uri": "file://" + ("" if slashes.startswith("/") else "/") + uri}
    return {"uri": uri, "uriBaseId": ROOT}


def _location(span: Span) -> dict[str, Any]:
    """A region of the file; SARIF knows no cells, so of a notebook they are said in words."""
    if span.cell:
        where = {"text": f"cell {span.cell}, line {span.line}"}
        return {"physicalLocation": {"artifactLocation": _artifact(span.path)}, "message": where}
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    return {"physicalLocation": {"artifactLocation": _artifact(span.path), "region": region}}


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    by_file: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_file.setdefault(edit.path or path, []).append(edit)
    changes = [
        {"artifactLocation": _artifact(name), "replacements": [_replacement(e) for e in edits]}
        for name, edits in by_file.items()
    ]
    return {"description": {"text": fix.title}, "artifactChanges": changes}


def _replacement(edit: Edit) -> dict[str, Any]:
    region = {"charOffset": edit.start, "charLength": edit.end - edit.start}
    return {"deletedRegion": region, "insertedContent": {"text": edit.new}}


def _skipped(report: Report) -> dict[str, Any]:
    """What was not looked at, as notifications; none when all was."""
    notes = [{"level": "warning", "message": {"text": line}} for line in report.skipped]
    return {"toolExecutionNotifications": notes} if notes else {}
