"""Ledger lines: where the step goes, as a table with bars, at any width of the terminal."""

from collections.abc import Iterator

from rich.text import Text

from pitstop.core.ledger import Ledger
from pitstop.core.units import milliseconds
from pitstop.report.shortened import cut_end
from pitstop.report.waterfall import BAR, dearest, drawn, is_idle, with_second_column

TITLE, MOST = "where the step goes", "most of it"
UNTOUCHED, SHARE = "untouched", "share"
GAP = "  "  # between columns
NARROWEST_BAR = 8  # characters; a shorter one shows nothing
PLACE = 32  # characters for "most of it", before the bar gets more than the least
NARROWEST_PLACE = 14  # a name, a colon and a line


def ledger_lines(ledger: Ledger, after: Ledger | None, width: int) -> Iterator[Text]:
    """From what the hardware needs up to the step: each cause, its time, a bar, its dearest line.

    Beside the time stands its share or, of a tuned script, the time with all that was kept.
    """
    titles = (UNTOUCHED, "tuned") if after else ("time", SHARE)
    second = milliseconds(after.step_ms) if after else "100 %"
    rows = list(with_second_column(ledger, after))
    labels = [TITLE, *(bar.label for bar, _ in rows)]
    numbers = (len(UNTOUCHED), 7) if after else (7, len(SHARE))
    label = min(max(map(len, labels)), width - sum(numbers) - 2 * len(GAP))
    size, room = _rest(width - label - sum(numbers) - 2 * len(GAP))

    def line(name: str, first: str, other: str, bar: Text, mostly: str) -> Text:
        cells = [f"{cut_end(name, label):<{label}}", f"{first:>{numbers[0]}}"]
        text = Text(GAP.join([*cells, f"{other:>{numbers[1]}}"]))
        if size:
            text.append(GAP).append(bar).append(" " * (size - len(bar)))
        return text.append(GAP + mostly) if room else text

    yield line(TITLE, *titles, Text(), cut_end(MOST, room))
    for bar, beside in rows:
        style = "green" if bar.cause == "floor" else "yellow" if is_idle(bar.cause) else "cyan"
        blocks = Text(drawn(bar, size), style)
        yield line(bar.label, milliseconds(bar.ms), beside, blocks, dearest(bar, room))
    total = line("step", milliseconds(ledger.step_ms), second, Text(), "")
    total.stylize("bold")
    yield total


def _rest(width: int) -> tuple[int, int]:
    """How wide bar and place are in what the numbers leave; one that has no room is left out."""
    both = width - 2 * len(GAP)
    if both >= NARROWEST_BAR + NARROWEST_PLACE:
        bar = min(BAR, max(NARROWEST_BAR, both - PLACE))
        return bar, both - bar
    alone = width - len(GAP)
    return 0, alone if alone >= NARROWEST_PLACE else 0
