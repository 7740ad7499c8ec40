"""See: run the script, with stand-ins first; where they do not do, once more in earnest."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.memory.plan import BEGIN, MemoryPlan, Seen, read_seen
from pitstop.profile.start import launch
from pitstop.profile.start.options import Options


def see(words: list[str], real: bool, seconds: float, tell: Callable[[str], None]) -> Seen:
    """What was seen until two steps were taken; ``tell`` hears of a second run."""
    with tempfile.TemporaryDirectory(prefix="pitstop-memory-") as folder:
        seen = _run(words, MemoryPlan(folder, real, seconds))
        if real or seen.steps or not seen.training:
            return seen
        tell(f"stand-ins did not do ({printable(seen.trouble)}): two real steps instead")
        return _run(words, MemoryPlan(folder, real=True, seconds=seconds))


def _run(words: list[str], plan: MemoryPlan) -> Seen:
    options = Options(plan.folder, also=((BEGIN, plan.to_json()),), record=False)
    code = launch.run(words, options)
    seen = read_seen(Path(plan.folder))
    if seen is None:
        raise PitstopError(
            f"no model was called (exit code {code}): is it a script that trains, or computes "
            "something, with torch?"
        )
    return seen
