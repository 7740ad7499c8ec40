"""Waste: module calls whose work nobody needs, or that one batched call could do."""

from pitstop.core.evidence import Evidence
from pitstop.diagnose.facts.calls import call_tree, repeats


def needless_calls(evidence: Evidence) -> frozenset[int]:
    """Calls whose result is unused or multiplied by zero, and all calls made from them."""
    roots = {place for place, call in enumerate(evidence.calls) if call.unused}
    roots |= {place for zeroed in evidence.zeroed for place in zeroed.calls}
    return with_inner(evidence, roots)


def repeated_calls(evidence: Evidence) -> frozenset[int]:
    """Calls 2 to n of groups that one batched call would cover, and all calls made from them."""
    groups = repeats(evidence, call_tree(evidence))
    return with_inner(evidence, {place for group in groups for place in group[1:]})


def with_inner(evidence: Evidence, roots: set[int]) -> frozenset[int]:
    """These calls and those made from them at any depth; a caller comes before its callees."""
    found = set(roots)
    for place, call in enumerate(evidence.calls):
        if call.parent in found:
            found.add(place)
    return frozenset(found)
