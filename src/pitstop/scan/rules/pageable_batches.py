"""PIT103 pageable-batches."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import replace, set_argument
from pitstop.scan.loaders import is_iterated, samples_are_on_a_gpu
from pitstop.scan.settings import Setting
from pitstop.scan.source import Source

LIGHTNING = ("pytorch_lightning.", "lightning.")  # copies batches without waiting


@rule("PIT103", worth="small")
def pageable_batches(source: Source) -> Iterator[Finding]:
    """Batches are collated into pageable memory, so their copy to the GPU cannot overlap.

    The driver first copies them to pinned memory of its own, and Python waits for that. With
    `pin_memory=True` the loader does it beside the step, and `non_blocking=True` then lets the
    copy run beside the kernels. Data that is indexed in memory is pinned once by
    `.pin_memory()`. Data that stays on the CPU, or is on the GPU already, needs no pinning.

    Bad:
        loader = torch.utils.data.DataLoader(clips, num_workers=4)
        for epoch in range(100):
            for clip in loader:
                model(clip.cuda(non_blocking=True)).mean().backward()

    Good:
        loader = torch.utils.data.DataLoader(clips, num_workers=4, pin_memory=True)
        for epoch in range(100):
            for clip in loader:
                model(clip.cuda(non_blocking=True)).mean().backward()
    """
    for call in source.calls("torch.utils.data.DataLoader"):
        if source.open_ended(call) or not _is_left_pageable(source, call):
            continue
        if samples_are_on_a_gpu(source, call):
            continue
        if is_iterated(source, call) and _is_copied(source):
            fix = Fix("Pin the batches", (set_argument(source, call, "pin_memory", "True"),))
            yield _note(source, call, fix)
    for setting in source.settings:
        wanted = setting.key == "pin_memory" and setting.value is False
        if wanted and source.project.reads_key("pin_memory"):
            fix = Fix("Pin the batches", (replace(source, setting, "true"),))
            yield _note(source, setting, fix)


def _note(source: Source, place: ast.Call | Setting, fix: Fix) -> Finding:
    """A note: what it gains depends on the batch, which may be of a class that cannot be pinned."""
    return source.finding(
        place, fix=fix, severity="note", confidence="suspected", changes=("loader",)
    )


def _is_left_pageable(source: Source, call: ast.Call) -> bool:
    pinned = source.argument(call, "pin_memory", 7)
    if pinned is not None:
        return source.literal(pinned) is False
    # Where a neighbour is pinned, the author knows: the others were left out on purpose.
    loaders = source.calls("torch.utils.data.DataLoader")
    return not any(source.argument(each, "pin_memory", 7) is not None for each in loaders)


def _is_copied(source: Source) -> bool:
    """Whether batches go to a device and could do so beside the kernels."""
    if source.project.mentions("accelerate.Accelerator"):
        return False  # it copies every batch itself, and waits
    return bool(source.method_calls("cuda", "to")) or source.project.mentions(*LIGHTNING)
