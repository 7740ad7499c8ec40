"""Workers: what the processes of a DataLoader spend their time on.

The script itself only waits for them. A forked worker inherits everything, so it can sample itself
while it prepares its first batches; then it writes one small file, which the recording process
reads at its end. Workers that are spawned start from nothing and stay unseen.
"""

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pitstop.core.private import ALONE_FILE
from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.record.sampler import Sampler

MOST_WORKERS = 4  # sampled in one run; the others do the same
SAMPLES = 100  # of each, then it is left alone
IDLE = ("multiprocessing/", "/threading.py:", "/selectors.py:")  # waiting for something to do


def sample_worker(folder: Path) -> Callable[[], Any]:
    """Sample the worker that runs this, unless others have told enough; return how to stop."""
    if len(list(folder.glob("workers-*.json"))) >= MOST_WORKERS:
        return lambda: None
    path = folder / f"workers-{os.getppid()}-{os.getpid()}.json"
    path.touch(ALONE_FILE)

    def write(rows: list[list[Any]]) -> None:
        attempt(path.write_text, json.dumps(rows))

    sampler = Sampler(threading.get_ident(), lambda: True, SAMPLES, IDLE, write)
    sampler.start()
    return sampler.stop


def read_workers(folder: Path) -> list[list[Any]]:
    """The samples of this process's workers together, as a ``Sampler`` gives them."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for path in folder.glob(f"workers-{os.getpid()}-*.json"):
        with contextlib.suppress(OSError, ValueError):
            for *row, count in json.loads(path.read_text() or "[]"):
                counts[tuple(row)] += count
            path.unlink()
    return [[*row, count] for row, count in counts.most_common()]
