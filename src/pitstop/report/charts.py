"""Charts: step times, memory and ranks as shapes in a fixed frame, ready for inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from pitstop.core.evidence import Evidence, Step, phases
from pitstop.core.finding import Curve as Line
from pitstop.core.finding import Finding
from pitstop.core.memory import undisturbed
from pitstop.core.units import binary_bytes, milliseconds

WIDTH, HEIGHT = 720.0, 180.0  # the frame that points are placed in
MOST_POINTS = 1200  # more are not seen in a frame this wide; every n-th is drawn
FENCE = 1.5  # interquartile ranges beyond the quartiles: where outliers begin, as Tukey has it


@dataclass(frozen=True, slots=True)
class Point:
    """A dot of a chart: its place in the frame, what kind it is, and what it says."""

    x: float
    y: float
    kind: str  # "steady", "outlier", "warm-up" or "inspected"
    title: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a chart, with its name and largest value in words."""

    name: str
    points: str  # as an SVG polyline has them
    peak: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One rank: its median step split into phases, as shares of the slowest rank's step."""

    rank: int
    total: str
    parts: tuple[tuple[str, float, float, str], ...]  # name, begin, width, time


@dataclass(frozen=True, slots=True)
class Drawing:
    """The curves of a finding in a frame, each on a scale of its own, and where it happened."""

    curves: tuple[tuple[str, tuple[str, ...], str], ...]  # name, unbroken parts, range in words
    first: str
    last: str
    mark: float | None


def drawing(finding: Finding) -> Drawing | None:
    """The picture of a finding, where it has one."""
    steps = [step for curve in finding.curves for step, _ in curve.points]
    if not steps:
        return None
    first, last = min(steps), max(steps)
    wide = (last - first) or 1.0
    mark = None if finding.mark is None else WIDTH * (finding.mark - first) / wide
    return Drawing(
        tuple(_parts(curve, first, wide) for curve in finding.curves),
        f"{first:,.10g}",
        f"{last:,.10g}",
        mark,
    )


def _parts(line: Line, first: float, wide: float) -> tuple[str, tuple[str, ...], str]:
    """A curve as polylines: it is broken where a value is not finite."""
    known = [value for _, value in line.points if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    parts: list[list[str]] = [[]]
    for step, value in line.points:
        if value is None:
            parts.append([])
            continue
        up = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        parts[-1].append(f"{WIDTH * (step - first) / wide:.1f},{HEIGHT * (1 - 0.92 * up):.1f}")
    placed = tuple(" ".join(part) for part in parts if part)
    return line.name, placed, f"{low:.3g} to {high:.3g}" if known else "nothing finite"


def step_points(evidence: Evidence) -> list[Point]:
    """Every step of the run, thinned; outliers are never thinned away."""
    steps = evidence.steps
    if not steps:
        return []
    steady = [step.total_ms for step in evidence.steady]
    fence = _fence(steady)
    highest = step_ceiling(evidence)
    stride = -(-len(steps) // MOST_POINTS)
    points = []
    for index, step in enumerate(steps):
        kind = _kind(evidence, index, step, fence)
        if kind == "steady" and index % stride:
            continue
        x = WIDTH * (index + 0.5) / len(steps)
        y = HEIGHT * (1 - min(1.0, step.total_ms / highest))
        points.append(Point(x, y, kind, f"step {index + 1}: {milliseconds(step.total_ms)}, {kind}"))
    return points


def step_ceiling(evidence: Evidence) -> float:
    """The step time at the top of the chart; a first step of seconds must not flatten the rest."""
    steady = [step.total_ms for step in evidence.steady] or [
        each.total_ms for each in evidence.steps
    ]
    return 1.1 * min(max(steady), 4 * sorted(steady)[len(steady) // 2])


def _kind(evidence: Evidence, index: int, step: Step, fence: float) -> str:
    if step.inspected:
        return "inspected"
    if index < evidence.warmup_steps:
        return "warm-up"
    return "outlier" if step.total_ms > fence else "steady"


def _fence(values: Sequence[float]) -> float:
    if len(values) < 4:
        return float("inf")
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high + FENCE * (high - low)


def memory_curves(evidence: Evidence) -> list[Curve]:
    """Memory over the run: of the host and, where there is one, of the GPU."""
    last = max((each.at_s for each in evidence.memory), default=0.0)
    series = {
        "host": [(each.at_s, each.host_bytes) for each in evidence.memory],
        "GPU, highest so far": [(each.at_s, each.gpu_peak_bytes) for each in undisturbed(evidence)],
    }
    known = {
        name: [(at, value) for at, value in points if value is not None]
        for name, points in series.items()
    }
    top = max((value for points in known.values() for _, value in points), default=0)
    return [_curve(name, points, last, top) for name, points in known.items() if len(points) > 1]


def _curve(name: str, points: Sequence[tuple[float, int]], last: float, top: int) -> Curve:
    kept = sorted(points)[:: -(-len(points) // MOST_POINTS)]
    placed = " ".join(
        f"{WIDTH * at / last if last else 0:.1f},{HEIGHT * (1 - value / (1.1 * top)):.1f}"
        for at, value in kept
    )
    return Curve(name, placed, binary_bytes(max(value for _, value in points)))


def lanes(ranks: Sequence[Evidence]) -> list[Lane]:
    """One lane for each rank that finished steps; nothing where there is only one."""
    known = [each for each in ranks if each.steady]
    if len(known) < 2:
        return []
    longest = max(each.mean_ms("total_ms") for each in known)
    return [_lane(each, phases(known), longest) for each in known]


def _lane(evidence: Evidence, fields: dict[str, str], longest: float) -> Lane:
    parts, begin = [], 0.0
    for field, name in fields.items():
        mean = evidence.mean_ms(field)
        parts.append((name, begin, mean / longest, milliseconds(mean)))
        begin += mean / longest
    return Lane(evidence.rank, milliseconds(evidence.mean_ms("total_ms")), tuple(parts))
