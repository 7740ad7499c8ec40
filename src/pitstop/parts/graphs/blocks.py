"""Graphs of the repeated blocks of a model that cannot be captured as a whole.

A model that prints, waits for the GPU or draws on the CPU runs as it is around its blocks, and each
block is replayed. Blocks from which nothing is learned share one memory pool: what a replay returns
is copied before the next one begins. In training each has a pool of its own, since its backward
pass reads what it has left there, long after others have run.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pitstop.parts.blocks import Undo, repeated_blocks
from pitstop.parts.graphs.calls import MOST_GRAPHS, Graphs, put_in_place, to_stderr, told
from pitstop.parts.graphs.device import Cuda, Device
from pitstop.parts.graphs.reasons import Reason


def graphs_of_blocks(
    model: nn.Module,
    say: Callable[[str], object],
    device: Callable[[torch.device], Device] = Cuda,
    **options: Any,
) -> list[tuple[nn.Module, Graphs]]:
    """Graphs for each repeated block; what is said of one class is said once."""
    pools: dict[torch.device, Device] = {}
    said: set[str] = set()

    def shared(where: torch.device) -> Device:
        if where not in pools:
            pools[where] = device(where)
        return pools[where]

    def once(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    return [
        (each, Graphs(each, say=once, device=device, shared=shared, **options))
        for each in repeated_blocks(model)
    ]


class GraphedBlocks:
    """The graphs of all blocks of a model; call it to undo them all."""

    def __init__(self, model: nn.Module, most: int) -> None:
        every = graphs_of_blocks(model, to_stderr, most=most)
        self.graphs: Sequence[Graphs] = [graphs for _, graphs in every]
        self._undos: list[Undo] = [put_in_place(block, graphs) for block, graphs in every]

    def __str__(self) -> str:
        calls, replayed = (
            sum(getattr(x, name) for x in self.graphs) for name in ("calls", "replayed")
        )
        reasons: Counter[Reason] = sum((each.reasons for each in self.graphs), Counter())
        return f"{len(self.graphs)} blocks: {told(calls, replayed, reasons)}"

    def __call__(self) -> None:
        """Undo: the blocks run as they are, and the memory of their graphs is free."""
        for each in self.graphs:
            each.forget()
        while self._undos:
            self._undos.pop()()


def graphed(
    model: nn.Module, most: int = MOST_GRAPHS, blocks: bool = False
) -> Graphs | GraphedBlocks:
    """Replay calls of ``model`` as CUDA graphs, in place; call the result to undo it.

    With ``blocks`` its repeated blocks are replayed, one by one, in a model that cannot be as a
    whole. ``str()`` of the result says how many calls were replayed, and why others were not. At
    most so many graphs are kept, of the model or of each block.
    """
    if blocks:
        return GraphedBlocks(model, most)
    graphs = Graphs(model, most)
    graphs.undo = put_in_place(model, graphs)
    return graphs
