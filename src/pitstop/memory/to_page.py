"""To page: the step's memory over time, by kind, as one HTML file that loads nothing."""

from html import escape
from itertools import pairwise

from pitstop.core.units import binary_bytes
from pitstop.memory import to_text
from pitstop.memory.answer import Answer
from pitstop.parts.memory.account import KINDS, Point

WIDE, HIGH, LEFT = 960, 320, 70  # of the picture, in pixels
NAMED = 55  # pixels of a phase that has room for its name
COLOURS = dict(
    zip(
        KINDS,
        (
            *("#4c78a8", "#9ecae9", "#f58518", "#b279a2"),
            *("#bab0ac", "#54a24b", "#eeca3b", "#e45756"),
        ),
        strict=True,
    )
)
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;
color:#222;background:#fff}pre{font:13px/1.45 ui-monospace,monospace;overflow-x:auto}
.key{display:inline-block;margin-right:1.2em}.key i{display:inline-block;width:.8em;height:.8em;
margin-right:.4em}svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:#444}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181a1b}text{fill:#bbb}}"""


def render(answer: Answer) -> str:
    """One page."""
    title = f"Memory of {escape(answer.command)}"
    keys = "".join(
        f'<span class="key"><i style="background:{COLOURS[kind]}"></i>{kind}</span>'
        for kind in KINDS
        if any(point.kinds.get(kind) for point in answer.account.timeline)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1>{_picture(answer)}<p>{keys}</p>"
        f"<p>From left to right: each block that is made or freed. The width is not time.</p>"
        f"<pre>{escape(to_text.render(answer))}</pre></html>\n"
    )


def _picture(answer: Answer) -> str:
    points = answer.account.timeline
    if not points:
        return ""
    card = answer.card.room_bytes if answer.card else 0
    top = 1.05 * max(answer.account.peak_bytes, card if card < 2 * answer.account.peak_bytes else 0)
    last = max(1, points[-1].moment)
    across = [LEFT + (WIDE - LEFT) * each.moment / last for each in points]
    below = [0.0] * len(points)
    shapes = []
    for kind in KINDS:
        above = [base + point.kinds.get(kind, 0) for base, point in zip(below, points, strict=True)]
        if above != below:
            outline = [
                *zip(across, above, strict=True),
                *reversed([*zip(across, below, strict=True)]),
            ]
            places = " ".join(f"{x:.1f},{HIGH * (1 - y / top):.1f}" for x, y in outline)
            shapes.append(f'<polygon points="{places}" fill="{COLOURS[kind]}"/>')
        below = above
    lines = [_level(answer.account.peak_bytes, top, "peak")]
    if answer.card and card < top:
        lines.append(_level(card, top, answer.card.name))
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH + 40}" role="img" aria-label="memory over the step">'
        f"{''.join(shapes)}{''.join(lines)}{_phases(points, across)}</svg>"
    )


def _level(size: int, top: float, name: str) -> str:
    y = HIGH * (1 - size / top)
    return (
        f'<line x1="{LEFT}" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888" '
        f'stroke-dasharray="4 3"/><text x="0" y="{y - 3:.1f}">{escape(name)}</text>'
        f'<text x="0" y="{y + 10:.1f}">{binary_bytes(size)}</text>'
    )


def _phases(points: tuple[Point, ...], across: list[float]) -> str:
    """Names below the picture, where each phase begins and is wide enough."""
    begins = [0, *(n for n, (a, b) in enumerate(pairwise(points), 1) if a.phase != b.phase)]
    texts = []
    for begin, end in pairwise([*begins, len(points) - 1]):
        x, width = across[begin], across[end] - across[begin]
        if width > NAMED:
            texts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HIGH + 6}" stroke="#8884"/>')
            texts.append(f'<text x="{x + 3:.1f}" y="{HIGH + 18}">{points[begin].phase}</text>')
    return "".join(texts)
