"""Change `leave-out` in the source: it is an edit and nothing else."""

from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Edit
from pitstop.scan.source import Source
from pitstop.tune.left_out.edits import guarded, sunk, unread
from pitstop.tune.left_out.wanted import LeftOut, left_out
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.plan import Options


def leave_out(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """What computes a result that nobody needs, behind a condition or gone."""
    wanted = options.get("at"), options.get("why")
    for each in left_out(sites.evidence):
        if (each.name, each.why) == wanted:
            edits = _edits(sites, each)
            yield from edits or (Left(_by_hand(sites, each)),)


def _edits(sites: Sites, found: LeftOut) -> list[Edit] | None:
    spot = sites.find(found.end)
    if spot is None:
        return None
    source, line = spot
    if found.why == "zero":
        return guarded(source, line, _lines(sites, source, found))
    calls = {sites.evidence.calls[place].where for place in found.calls}
    whole = all(each.unused for each in sites.evidence.calls if each.where in calls)
    return unread(source, line) if whole else sunk(source, line)


def _lines(sites: Sites, source: Source, found: LeftOut) -> list[int]:
    """The lines of a file that make the calls."""
    calls = (sites.evidence.calls[place] for place in found.calls)
    spots = [sites.find(each.where) for each in calls]
    return [spot[1] for spot in spots if spot and spot[0] is source]


def _by_hand(sites: Sites, found: LeftOut) -> str:
    """What a person has to edit."""
    calls = dict.fromkeys(sites.evidence.calls[place].path for place in found.calls)
    names = " and ".join(f"`{each}`" for each in [*calls][:2])
    if found.why == "zero":
        return f"compute {names} for {_at(sites, found.end)} only where its weight is not zero"
    return f"call {names} at {_at(sites, found.at)} only where the result is used"


def _at(sites: Sites, line: Line) -> str:
    return sites.show(line)
