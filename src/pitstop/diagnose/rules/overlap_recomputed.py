"""PIT614 overlap-recomputed."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import percent
from pitstop.diagnose.facts.calls import call_tree
from pitstop.diagnose.facts.tiles import tilings
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step spent on what another tile computes as well


@rule("PIT614")
def overlap_recomputed(recording: Recording) -> Iterator[Finding]:
    """Overlapping tiles compute parts of the picture twice or more.

    Tiles of 512 with an overlap of 64 cover a 720p picture 1.2 times, and small tiles far more.
    Larger tiles, as memory allows, and no more overlap than the seams need make up for it. For a
    VAE, `pitstop.parts.TiledVae` plans them.

    Bad:
        plan = Tiling(size=128, overlap=64)

    Good:
        plan = Tiling(size=512, overlap=64)
    """
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    tree = call_tree(evidence)
    found = tilings(evidence, tree)
    for line in dict.fromkeys(each.where for each in found):
        here = [each for each in found if each.where == line]
        twice = sum(
            sum(tree.micros[call] for call in each.calls) * (1 - 1 / each.area) for each in here
        )
        ms = tree.ms(twice, ledger)
        if ledger.at_stake(ms) < WORTH_MENTIONING:
            continue
        calls = [call for each in here for call in each.calls]
        area = max(each.area for each in here)
        yield Finding(
            f"The tiles cover {percent(area)} of the picture: computing the overlaps again takes "
            f"{cost_phrase(ms, ledger)}.",
            span=span(line),
            cure="fewer and larger tiles, as memory allows, or less overlap",
            confidence="measured",
            metrics=(Metric("area of the tiles", area, "pictures"), Metric("overlaps", ms, "ms")),
            saving=ledger.at_stake(ms),
            claims=rows_behind(ledger, operations_in(evidence, calls)),
            changes=("tiled-vae",),
        )
