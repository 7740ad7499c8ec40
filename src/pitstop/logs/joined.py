"""Joined: runs that are parts of one, since a writer gave each of its series a folder."""

from collections.abc import Sequence
from dataclasses import replace

from pitstop.logs.history import Run


def joined(runs: Sequence[Run], outermost: str) -> list[Run]:
    """The runs, those of TensorBoard's ``add_scalars`` put together.

    ``add_scalars("loss", {"train": ..., "val": ...})`` writes the tag ``loss`` into two folders,
    ``loss_train`` and ``loss_val``.
    """
    whole: dict[str, Run] = {}
    for run in runs:
        above, _, name = run.name.rpartition("/")
        part = _part(run, name)
        if not part:
            whole[run.name] = _with(whole[run.name], run) if run.name in whole else run
            continue
        series = replace(run.series[0], tag=f"{run.series[0].tag}/{part}")
        own = replace(run, name=above or outermost, series=(series,))
        whole[own.name] = _with(whole[own.name], own) if own.name in whole else own
    return list(whole.values())


def _part(run: Run, name: str) -> str:
    """``val`` of a folder ``loss_val`` that holds the tag ``loss`` alone."""
    if run.kind != "TensorBoard" or len(run.series) != 1:
        return ""
    begin = run.series[0].tag.replace("/", "_") + "_"
    return name.removeprefix(begin) if name.startswith(begin) else ""


def _with(run: Run, other: Run) -> Run:
    if run.kind != other.kind:
        return run
    series = sorted((*run.series, *other.series), key=lambda each: each.tag)
    return replace(run, series=tuple(series), torn=run.torn or other.torn)
