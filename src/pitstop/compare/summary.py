"""Summary: what two things came out as, and whether the gates hold, as a Report."""

from collections.abc import Iterator, Sequence

from pitstop.compare.gates import MEMORY, Gate, Result, find, result
from pitstop.compare.judge import BETWEEN_RUNS
from pitstop.core.comparison import Comparison
from pitstop.core.report import Check, Report, Status
from pitstop.core.units import change, count, percent
from pitstop.report.wording import interval

STATUS: dict[Result, Status] = {"pass": "ok", "fail": "FAIL", "inconclusive": "warn"}
ONE_RUN = (
    "one run each: how far two runs of the same thing differ cannot be seen, so that intervals are "
    f"{percent(BETWEEN_RUNS)} wider"
)


def leading(comparisons: Sequence[Comparison], same_work: bool) -> Comparison:
    """The comparison that answers the question: step time, or throughput where steps differ."""
    others = [each for each in comparisons if each.metric not in MEMORY]
    wanted = "step" if same_work else "samples"
    return next((each for each in others if each.metric == wanted), (*others, *comparisons)[0])


def settled(comparisons: Sequence[Comparison], gates: Sequence[Gate], same_work: bool) -> bool:
    """Whether more pairs would add nothing: every gate decided, or without gates the answer."""
    if gates:
        return all(result(gate, comparisons) != "inconclusive" for gate in gates)
    return leading(comparisons, same_work).verdict != "inconclusive"


def summarise(
    comparisons: Sequence[Comparison],
    gates: Sequence[Gate],
    notes: Sequence[str],
    same_work: bool,
    one_run: bool = False,
) -> Report:
    """The report of one comparison."""
    first = leading(comparisons, same_work)
    noun = "block" if one_run else "pair"
    return Report(
        command="compare",
        verdict=_verdict(first),
        why=f"{count(first.pairs, noun)}: {first.reason}.",
        next=_next(first, gates, comparisons, one_run),
        checks=tuple(_checks(gates, comparisons)),
        comparisons=tuple(comparisons),
        notes=(*notes, *([ONE_RUN] if one_run else [])),
    )


def outcome(gates: Sequence[Gate], comparisons: Sequence[Comparison]) -> Result:
    """The gates together: one that fails is enough, one that is open leaves all open."""
    results = {result(gate, comparisons) for gate in gates}
    order: tuple[Result, ...] = ("fail", "inconclusive")
    return next((each for each in order if each in results), "pass")


def _verdict(first: Comparison) -> str:
    said = f"{first.metric} {_change(first)}"
    match first.verdict:
        case "same":
            return f"B is the same as A: {said}."
        case "inconclusive":
            return f"Inconclusive: {said}."
        case _:
            return f"B is {first.verdict} than A: {said}."


def _next(
    first: Comparison, gates: Sequence[Gate], comparisons: Sequence[Comparison], one_run: bool
) -> str:
    if gates and outcome(gates, comparisons) == "pass":
        return ""
    if first.verdict != "inconclusive" and not one_run:
        return ""
    if one_run:
        return 'pitstop compare "COMMAND A" "COMMAND B" runs both in pairs and sees that noise too'
    return "longer runs (--steps) or a quieter machine"


def _checks(gates: Sequence[Gate], comparisons: Sequence[Comparison]) -> Iterator[Check]:
    for gate in gates:
        found = find(gate, comparisons)
        value = _change(found) if found else "not measured"
        status = STATUS[result(gate, comparisons)]
        cure = found.reason if found and status == "warn" else ""
        yield Check(status, f"gate {gate.text}", value, cure)


def _change(found: Comparison) -> str:
    if found.ratio is None:
        return "not measured"
    return (
        change(found.ratio) if found.low is None else f"{change(found.ratio)} ({interval(found)})"
    )
