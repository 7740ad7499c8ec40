"""Waste: module calls whose work nobody needs, or that one batched call could do."""

from collections import defaultdict

from pitstop.core.evidence import Evidence


def needless_calls(evidence: Evidence) -> frozenset[int]:
    """Calls whose result is unused or multiplied by zero, and all calls made from them."""
    roots = {place for place, call in enumerate(evidence.calls) if call.unused}
    roots |= {place for zeroed in evidence.zeroed for place in zeroed.calls}
    return _with_inner(evidence, roots)


def repeated_calls(evidence: Evidence) -> frozenset[int]:
    """Calls 2 to n of groups that one batched call would cover, and all calls made from them."""
    again = {place for group in repeated_groups(evidence) for place in group[1:]}
    return _with_inner(evidence, again)


def repeated_groups(evidence: Evidence) -> list[list[int]]:
    """Positions of the calls of one module on equal shapes that do not depend on each other.

    Only the outermost count: what a repeated module calls inside is repeated with it.
    """
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for place, call in enumerate(evidence.calls):
        if call.parameters and not call.recomputed and not call.unused:
            groups[call.path, call.kind, call.shapes].append(place)
    several = [
        group
        for group in groups.values()
        if len(group) > 1 and not any(evidence.calls[place].chained for place in group)
    ]
    inner = _below(evidence, {place for group in several for place in group})
    return [group for group in several if not any(place in inner for place in group)]


def _with_inner(evidence: Evidence, roots: set[int]) -> frozenset[int]:
    return frozenset(roots | _below(evidence, roots))


def _below(evidence: Evidence, roots: set[int]) -> set[int]:
    """The calls made, at any depth, from the calls ``roots``; a caller comes before its callees."""
    below: set[int] = set()
    for place, call in enumerate(evidence.calls):
        if call.parent in roots or call.parent in below:
            below.add(place)
    return below
