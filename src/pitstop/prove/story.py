"""Story: what came of a proof, as a Report, the verdict first."""

from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.comparison import Comparison, Parted
from pitstop.core.report import Check, Proved, Report
from pitstop.core.units import binary_bytes, change, count, milliseconds
from pitstop.prove.git import SHORT
from pitstop.prove.numbers import Numbers
from pitstop.prove.trees import Trees
from pitstop.report.wording import interval

NAMED = 5  # files said by name
MORE = 3  # times the budget: noise falls with the root of the number of pairs
LONGER = "a larger --budget, longer runs (--steps) or a quieter machine"
IDENTICAL = "the two trees are identical: --base REV names another revision"


@dataclass(frozen=True, slots=True)
class Proof:
    """All that a proof has come to."""

    trees: Trees
    numbers: Numbers | None = None  # null: it did not come to that
    comparisons: tuple[Comparison, ...] = ()  # the first one answers the question
    interrupted: bool = False
    untimed: str = ""  # why there are no pairs, or no more of them

    @property
    def outcome(self) -> Proved:
        """The verdict."""
        if self.numbers and self.numbers.parted:
            return "drifted"
        if not self.numbers or not self.comparisons:
            return "inconclusive"
        return self.comparisons[0].verdict


def build_report(proof: Proof, command: str, budget_minutes: float) -> Report:
    """The report of a proof; ``command`` is the script and its arguments, as they were typed."""
    return Report(
        command="prove",
        verdict=_verdict(proof),
        why=_why(proof),
        next=_next(proof, command, budget_minutes),
        typed=command,
        where=_where(proof.numbers.parted) if proof.numbers and proof.numbers.parted else "",
        checks=tuple(_checks(proof)),
        comparisons=proof.comparisons,
        proved=proof.outcome,
        parted=proof.numbers.parted if proof.numbers else None,
        notes=tuple(_notes(proof)),
    )


def _verdict(proof: Proof) -> str:
    sides = f"{proof.trees.name} against {proof.trees.commit[:SHORT]}"
    match proof.outcome:
        case "drifted":
            return f"drifted: {sides} computes something else."
        case "inconclusive" if not proof.comparisons:
            return f"inconclusive: {sides} was not timed."
        case outcome:
            return f"{outcome}: {sides}, {_change(proof.comparisons[0])}."


def _change(found: Comparison) -> str:
    if found.before is None or found.after is None or found.ratio is None:
        return f"{found.metric} was not measured"
    ends = "" if found.low is None else f" ({interval(found)})"
    before, after = (_quantity(each, found.unit) for each in (found.before, found.after))
    return f"{found.metric} {after} instead of {before}, {change(found.ratio)}{ends}"


def _quantity(value: float, unit: str) -> str:
    if unit == "ms":
        return milliseconds(value)
    return binary_bytes(value) if unit == "bytes" else f"{value:.4g} {unit}".rstrip()


def _why(proof: Proof) -> str:
    unknown = proof.untimed or ("ended by Ctrl-C" if proof.interrupted else "")
    if proof.numbers is None:
        return f"{unknown}."
    if proof.numbers.parted:
        return f"{proof.numbers.parted.reason}."
    if proof.comparisons:
        first = proof.comparisons[0]
        unknown = f"{count(first.pairs, 'pair')} of fresh processes: {first.reason}"
    return f"{unknown}. The numbers hold: {proof.numbers.holds}."


def _next(proof: Proof, command: str, budget_minutes: float) -> str:
    match proof.outcome:
        case "better":
            return "keep the edit"
        case "worse" | "same":
            return "revert the edit: it is no gain"
        case "drifted":
            return "revert the edit, or mend what parts; if rounding is meant to grow: --precision"
        case _:
            return f"{LONGER}: pitstop prove --budget {MORE * budget_minutes:g} -- {command}"


def _where(parted: Parted) -> str:
    step = f"step {parted.step}" if parted.step else ""
    return ", ".join(filter(None, (step, parted.quantity, parted.module)))


def _checks(proof: Proof) -> Iterator[Check]:
    if proof.numbers is None:
        yield Check("n/a", "numbers", "not known")
    elif proof.numbers.parted:
        yield Check("FAIL", "numbers", proof.numbers.parted.reason)
    else:
        yield Check("ok", "numbers", proof.numbers.holds)


def _notes(proof: Proof) -> Iterator[str]:
    changed = proof.trees.changed
    if changed:
        more = ", ..." if len(changed) > NAMED else ""
        yield f"changed: {', '.join(changed[:NAMED])}{more}"
    else:
        yield IDENTICAL
    yield from proof.trees.notes
    if proof.comparisons and proof.untimed:
        yield f"the pairs ended early: {proof.untimed}"
    if proof.interrupted:
        yield "ended by Ctrl-C"
