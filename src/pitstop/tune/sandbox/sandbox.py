"""Sandbox: the folders and the variables of one trial, and the end of all that it leaves behind."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pitstop.profile.read.collect import lines
from pitstop.profile.start.options import FIRST
from pitstop.tune.sandbox import caches, child_processes, enter, folders, landlock
from pitstop.tune.sandbox.copied_tree import Tree

PIPES = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"  # noqa: S108 through which a GPU is shared
QUIET = {  # services that would keep a record of each trial
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "ONEDNN_JIT_PROFILE": "0",  # on Arm it writes /tmp/perf-PID.map
    "PYTHONDONTWRITEBYTECODE": "1",
    "WANDB_MODE": "disabled",
}
ENGLISH = {"LANGUAGE": "en"}  # so that we understand what programs complain of


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What one trial may write to."""

    scratch: Path  # takes what the script writes elsewhere
    temporary: Path
    others: tuple[Path, ...]  # folders of ours
    lists: bool  # its processes note what they open for writing, and start
    fenced: bool  # the kernel refuses to write anywhere else
    tag: str  # of its processes
    tree: Tree | None = None  # a copy of the user's tree, which it is to import from

    @property
    def first(self) -> str:
        """What the trial's process is told to do before the script's first line."""
        alone = [str(self.temporary), *map(str, self.others)]
        told = {"folder": str(self.scratch), "alone": alone, "lists": self.lists}
        return f"{enter.BEGIN} {json.dumps({**told, 'tree': self._led})}"

    @property
    def only_imports(self) -> str:
        """Likewise, where it may write where it wants to."""
        return f"{enter.BEGIN} {json.dumps({'tree': self._led})}"

    @property
    def _led(self) -> list[str]:
        return [self.tree.of, self.tree.copy] if self.tree else []

    @property
    def wrapper_command(self) -> tuple[str, ...]:
        """What to put before its command, so that the kernel refuses it to write elsewhere."""
        pipes = Path(os.environ.get(*PIPES))
        return landlock.wrapper_command([*self.may_write, pipes]) if self.fenced else ()

    @property
    def may_write(self) -> tuple[Path, ...]:
        """All folders that it may."""
        return (self.scratch, self.temporary, *self.others, *caches.caches())

    def environment(self) -> dict[str, str]:
        """Variables of a trial that must leave no trace."""
        return {
            **QUIET,
            **ENGLISH,
            "PYTHONFAULTHANDLER": "1",  # where a crash in C++ came from
            FIRST: self.first,
            "MLFLOW_TRACKING_URI": (self.temporary / "mlflow").as_uri(),
            "TMPDIR": str(self.temporary),
        }


@contextlib.contextmanager
def opened(
    folder: Path, cache: Path, lists: bool = False, tree: Tree | None = None
) -> Iterator[Sandbox]:
    """A sandbox for one trial, with two folders of ours; afterwards only those are left of it."""
    cache.mkdir(parents=True, exist_ok=True)
    with folders.temporary() as place, caches.all_there():
        scratch, temporary = place / "scratch", place / "t"  # short, for the sake of sockets
        scratch.mkdir()
        temporary.mkdir()
        fenced = not landlock.missing()
        box = Sandbox(scratch, temporary, (folder, cache), lists, fenced, uuid4().hex, tree)
        try:
            yield box
        finally:
            seen = [row[0] for sample in lines(folder / "host.jsonl") for row in sample["memory"]]
            child_processes.clean_shared_memory({*seen, *child_processes.end(box.tag)})
