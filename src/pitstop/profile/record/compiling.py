"""Compiling: what Dynamo itself has written down about its work, read at the end of a run."""

import sys
from collections import Counter
from types import ModuleType
from typing import Any

from pitstop.profile.source.lines import NOWHERE

MOST_COMPILATIONS = 256  # Dynamo itself keeps the last 64 unless told otherwise
LONGEST_REASON = 500  # characters; Dynamo's explanations run to pages


def compiled() -> dict[str, Any]:
    """The line for the recording; nothing where Dynamo was not used."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return {}
    try:
        return {"compiled": _compilations(dynamo), "breaks": _breaks(dynamo)}
    except Exception as error:  # noqa: BLE001 notes that were never meant for us
        return {"compiling_unread": f"{type(error).__name__}: {error}"}


def _compilations(dynamo: ModuleType) -> list[list[Any]]:
    """First line of each compiled function, seconds, versions before, reason and failure."""
    found = [each for each in dynamo.get_compilation_metrics() if each.co_filename]
    return [_compilation(each, dynamo) for each in found[-MOST_COMPILATIONS:]]


def _breaks(dynamo: ModuleType) -> list[list[Any]]:
    """The user's line of each graph break, its reason, and how often it was met."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for each in dynamo.graph_break_reasons:
        stack = each.user_stack
        place = (stack[-1].filename, stack[-1].lineno or 0, stack[-1].name) if stack else NOWHERE
        counts[*place, _one_line(each.reason).partition(" Hint:")[0]] += 1
    return [[*key, count] for key, count in counts.most_common(MOST_COMPILATIONS)]


def _compilation(metrics: Any, dynamo: ModuleType) -> list[Any]:
    """One entry of Dynamo's log, whose fields come and go with its versions."""
    seconds = getattr(metrics, "entire_frame_compile_time_s", None)
    if seconds is None:
        seconds = (getattr(metrics, "duration_us", None) or 0) / 1e6
    return [
        metrics.co_filename,
        metrics.co_firstlineno or 0,
        metrics.co_name or "",
        seconds,
        getattr(metrics, "accumulated_cache_size", None) or 0,
        _one_line(_reason(metrics, dynamo)),
        _one_line(getattr(metrics, "fail_reason", None)),
    ]


def _reason(metrics: Any, dynamo: ModuleType) -> str | None:
    """Why it was compiled again: in torch 2.6, the first guard of the version before that failed.

    A version is called 0/2: of the first frame, the third. So the reasons begin.
    """
    if hasattr(metrics, "recompile_reason"):
        reason: str | None = metrics.recompile_reason
        return reason
    frame, _, version = str(metrics.compile_id).rpartition("/")
    before = f"{frame}/{int(version) - 1}: " if version.isdecimal() else ""
    failed = [each for code in dynamo.guard_failures.values() for each in code]
    return next((each for each in failed if before and each.startswith(before)), None)


def _one_line(text: Any) -> str:
    return " ".join(str(text or "").split())[:LONGEST_REASON]
