"""PIT601 module-called-repeatedly."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.core.units import milliseconds
from pitstop.diagnose.facts.calls import (
    CallTree,
    call_tree,
    calling_lines,
    labels,
    pattern,
    repeats,
    stretch,
)
from pitstop.diagnose.facts.tiles import tilings
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.01  # of the step in the calls after the first; less is not worth an edit

Group = tuple[int, ...]


@rule("PIT601")
def module_called_repeatedly(recording: Recording) -> Iterator[Finding]:
    """A module is called several times a step on equal shapes, where once would do."""
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    tree = call_tree(evidence)
    families: dict[tuple[object, ...], list[Group]] = defaultdict(list)
    tiled = {position for each in tilings(evidence, tree) for position in each.calls}
    for group in repeats(evidence, tree):
        if not tiled.isdisjoint(group):
            continue  # tiles have a rule of their own
        families[tree.calls[group[0]].kind, calling_lines(tree, group)].append(group)
    spent = {key: _after_first(tree, groups) for key, groups in families.items()}
    told = set()
    for key in sorted(families, key=lambda each: -spent[each]):
        ms, lines = tree.ms(spent[key], ledger), key[-1]
        if ledger.at_stake(ms) >= WORTH_MENTIONING and lines not in told:
            told.add(lines)  # an embedding beside its encoder is mended with it
            part = spent[key] / sum(spent.values())
            batched_ms = min(ms, part * ledger.total("repeated"))
            if ledger.floor_known and ledger.at_stake(batched_ms) < WORTH_MENTIONING:
                continue  # the calls keep the device busy, each with work of its own
            later = [place for group in families[key] for place in group[1:]]
            claims = rows_behind(ledger, operations_in(evidence, later), "repeated")
            found = _finding(tree, families[key], ms, ledger, batched_ms)
            yield replace(found, claims=claims)


def _after_first(tree: CallTree, groups: list[Group]) -> float:
    return sum(tree.micros[position] for group in groups for position in group[1:])


def _finding(
    tree: CallTree, groups: list[Group], ms: float, ledger: Ledger, batched_ms: float
) -> Finding:
    name = pattern(tree.calls[group[0]].path for group in groups)
    calls, at_once = sum(map(len, groups)), max(map(len, groups))
    times = f"{calls} times a step" + (f", {at_once} at a time," if len(groups) > 1 else "")
    lines = calling_lines(tree, groups[0])
    by_batch = any("BatchNorm" in call.kind and call.training for call in tree.below(groups[0][0]))
    same = "takes its statistics over all of them" if by_batch else "gives the same numbers"
    saves = f" and saves at most {milliseconds(batched_ms)} of it" if ledger.floor_known else ""
    return Finding(
        f"`{name}` is called {times} on equal shapes ({labels(lines)}), and all but the first "
        f"take {cost_phrase(ms, ledger)}; one call on the stacked batch {same}{saves}.",
        span=stretch(lines),
        cure="stack the inputs in one call: part `batched`; keep the result of an equal input",
        severity="note" if by_batch else "warning",
        confidence="measured",
        metrics=(Metric("calls", calls, "calls"), Metric("calls after the first", ms, "ms")),
        saving=ledger.at_stake(batched_ms) if ledger.floor_known else None,
    )
