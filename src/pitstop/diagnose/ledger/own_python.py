"""Own Python: what a line of the script takes that is neither torch nor torch's own Python."""

from pitstop.core.evidence import Line
from pitstop.core.ledger import Ledger
from pitstop.diagnose.ledger.samples import is_own, line_ms
from pitstop.diagnose.recording import Recording


def own_python(recording: Recording, ledger: Ledger) -> dict[Line, float]:
    """Milliseconds of a step by line, dearest first; only what every rank was found at.

    What one rank does alone is that rank's matter, which has a rule of its own.
    """
    ranks = [line_ms(each, is_own) for each in recording.ranks if each.steady]
    common = set.intersection(*(set(each) for each in ranks)) if ranks else set()
    spent = {
        line: min(*(each[line] for each in ranks), ledger.total("python", where=line))
        for line in common
    }
    return dict(sorted(spent.items(), key=lambda item: -item[1]))
