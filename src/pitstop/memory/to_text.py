"""To text: the answer on one screen."""

from pathlib import Path

from pitstop.core.printable import printable
from pitstop.core.units import binary_bytes, percent
from pitstop.memory.answer import Answer, Card
from pitstop.parts.memory.account import Share

SHOWN = 8  # modules, and lines


def render(answer: Answer) -> str:
    """Verdict first."""
    account = answer.account
    what = "A training step" if answer.training else "A call"
    how = "seen in two real steps" if answer.real else "seen with stand-ins; nothing was computed"
    rows = [
        f"Verdict  {what} needs {binary_bytes(answer.needed_bytes)} of a GPU.",
        f"Why      {binary_bytes(account.peak_bytes)} in use at the peak ({account.phase}), "
        f"{binary_bytes(account.reserved_bytes)} with gaps, and CUDA's own; {how}.",
        *([f"Fits     {_fits(answer, answer.card)}"] if answer.card else []),
        *([f"Note     {printable(answer.trouble)}"] if answer.trouble else []),
        "",
        "At the peak",
    ]
    for kind, size in account.kinds.items():
        share = percent(size / max(1, account.peak_bytes))
        rows.append(f"  {binary_bytes(size):>10}  {share:>6}  {kind}")
    rows += ["", "By module", *_shares(account.modules, "(the script itself)")]
    rows += ["", "By line", *_shares(account.lines, "")]
    return "\n".join(rows) + "\n"


def _fits(answer: Answer, card: Card) -> str:
    fits = "fits" if card.fits else "does not fit"
    most = "no batch fits"
    if card.times > 0:
        most = f"the largest batch is about {card.times:.3g} times this one"
        if answer.batch:
            most = f"the largest batch is about {round(card.times * answer.batch)}"
            most += f" (here {answer.batch})"
    return f"It {fits} {printable(card.name)}, {binary_bytes(card.room_bytes)} for it; {most}."


def _shares(shares: tuple[Share, ...], nameless: str) -> list[str]:
    rows = []
    for each in shares[:SHOWN]:
        most = max(each.kinds, key=lambda kind: each.kinds[kind])
        name = printable(shorter(each.name)) or nameless
        rows.append(f"  {binary_bytes(each.bytes):>10}  {name}  (mostly {most})")
    rest = sum(each.bytes for each in shares[SHOWN:])
    if rest:
        rows.append(f"  {binary_bytes(rest):>10}  in {len(shares) - SHOWN} more")
    return rows


def shorter(name: str) -> str:
    """Paths below the current folder without it."""
    here = f"{Path.cwd()}/"
    return name.removeprefix(here)
