"""PIT610 tiles-one-at-a-time."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.calls import call_tree
from pitstop.diagnose.facts.tiles import tilings
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step in tiles that could join another; less is not worth memory


@rule("PIT610")
def tiles_one_at_a_time(recording: Recording) -> Iterator[Finding]:
    """Tiles of a picture go through the network one by one."""
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    on_gpu = ledger.device == "cuda" and ledger.floor_known
    tree = call_tree(evidence)
    found = tilings(evidence, tree)
    for line in dict.fromkeys(each.where for each in found):
        here = [each for each in found if each.where == line]
        micros = [sum(tree.micros[call] for call in each.calls) for each in here]
        joining = sum(
            spent * (1 - each.shapes / each.tiles) for spent, each in zip(micros, here, strict=True)
        )
        ms = tree.ms(joining, ledger)
        if ledger.at_stake(ms) < WORTH_MENTIONING:
            continue
        tiles = sum(each.tiles for each in here)
        calls = [call for each in here for call in each.calls]
        yield Finding(
            f"{count(tiles, 'tile')} a step go through the network one by one; those that could "
            f"go together with another of their size take {cost_phrase(ms, ledger)}.",
            span=span(line),
            cure="batch tiles of one size, as many as memory holds",
            severity="warning" if on_gpu else "note",  # a CPU is busy with one tile as with two
            confidence="suspected",  # a tile may fill the device alone
            metrics=(Metric("tiles", tiles, "tiles"), Metric("tiles that could join", ms, "ms")),
            saving=ledger.at_stake(min(ms, ledger.total("repeated"))) if on_gpu else None,
            claims=rows_behind(ledger, operations_in(evidence, calls), "repeated"),
            changes=("tiled-vae",),
        )
