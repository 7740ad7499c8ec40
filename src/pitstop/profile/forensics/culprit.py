"""Culprit: the operation or tensor in a graph from which numbers stopped being finite."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from pitstop.profile.forensics.graph import NOWHERE, Place, leaves_of, saved
from pitstop.profile.forensics.hazards import (
    MASKS,
    STEEP,
    STEEP_IF_MASKED,
    explain,
    explain_operand,
    has_nan,
    is_finite,
    is_fractional_power,
    said,
    suppose,
)
from pitstop.profile.forensics.packed import is_readable
from pitstop.profile.forensics.written import line_that_writes_nan
from pitstop.profile.source.variables import (
    WRITTEN,
    Assigned,
    Variable,
    assigned,
    place_of,
    variables,
)

HUGE = 1e8  # a weight of this size squares to more than most numbers can hold, and is no weight
VIEWS = ("TBackward", "Transpose", "Permute", "View", "Unsqueeze", "Expand", "ToCopy")
BIAS = ("attn_bias", "attn_mask")  # infinite on purpose
UNREAD = "torch before 2.7 does not tell which operation it was while the script profiles itself"


@dataclass(frozen=True, slots=True)
class Culprit:
    """Who it was: a node by its index, or a line where that is known without one."""

    phase: str = ""
    index: int = -1
    operation: str = ""
    detail: str = ""
    place: Place = NOWHERE


class Scene:
    """A graph whose root is not finite, and what its saved tensors say about each operation."""

    def __init__(self, root: Any, nodes: Sequence[Any], frame: FrameType) -> None:
        self.nodes = nodes
        self.frame = frame
        self.root = root.grad_fn
        self.index = {node: index for index, node in enumerate(nodes)}
        self.saved = {node: dict(saved(node)) for node in nodes}
        self.finite: dict[Any, bool] = {}  # what came out of a node, where somebody kept it
        for tensors in self.saved.values():
            for tensor in tensors.values():
                self._learn(tensor)
        self.finite[self.root] = False

    def _learn(self, tensor: torch.Tensor) -> None:
        maker = tensor.grad_fn
        if maker not in self.index:
            return
        fine = is_finite(tensor)
        if not fine and is_mask(maker) and not has_nan(tensor):
            return  # a mask of infinities may be meant
        self.finite[maker] = self.finite.get(maker, True) and fine

    def constants(self, node: Any) -> Iterator[torch.Tensor]:
        """What went into an operation without a graph, as far as the node kept it."""
        for name, tensor in self.saved[node].items():
            if tensor.grad_fn is None and not tensor.requires_grad and name not in BIAS:
                yield tensor

    def reached(self, through_masks: bool) -> list[Any]:
        """Nodes from which the root may have got its bad numbers, in the order they ran."""
        waiting, seen = [self.root], {self.root}
        while waiting:
            node = waiting.pop()
            if is_mask(node) and not through_masks and self.finite.get(node) is None:
                continue
            for each in inputs(node):
                if each in self.index and each not in seen and self.finite.get(each) is not True:
                    seen.add(each)
                    waiting.append(each)
        return sorted(seen, key=lambda node: self.index[node])


def find_culprit(root: Any, nodes: Sequence[Any], frame: FrameType) -> Culprit:
    """Who made the root of a graph non-finite."""
    bad = [leaf for leaf in leaves_of(nodes) if not is_finite(leaf)]
    if bad:
        return _overwritten(bad, frame) or _through_weights(nodes, bad)
    if not is_readable():
        return Culprit(detail=UNREAD)
    scene = Scene(root, nodes, frame)
    for through_masks in (False, True):
        reached = scene.reached(through_masks)
        for node in reached:
            proved = _proof(scene, node)
            if proved:
                return proved
    return _earliest(scene, scene.reached(through_masks=True))


def is_mask(node: Any) -> bool:
    """Whether an operation lets through only part of its input."""
    return bool(node.name().startswith(MASKS))


def inputs(node: Any) -> Iterator[Any]:
    """The nodes whose results an operation takes."""
    return (each for each, _ in node.next_functions if each is not None)


def _proof(scene: Scene, node: Any) -> Culprit | None:
    """What a node's own tensors prove against it or against what went into it."""
    for tensor in scene.constants(node):
        if not is_finite(tensor):
            return _from_outside(scene, node, tensor)
    words = explain(node, scene.saved[node])
    return Culprit("forward", scene.index[node], said(node), words) if words else None


def _earliest(scene: Scene, reached: Sequence[Any]) -> Culprit:
    """Without a proof: the earliest operation whose result is known to be bad.

    Operations before it whose result nobody kept are as much in question, so a bad variable that
    one of them may have taken comes first.
    """
    first = next(node for node in reached if scene.finite.get(node) is False)
    unknown = [first, *_before(first, lambda node: node not in scene.finite)]
    taking = [node for node in unknown if node in scene.index and _takes_unseen(scene, node)]
    for node in sorted(taking, key=lambda node: scene.index[node]):
        for variable in variables(scene.frame):
            if has_nan(variable.tensor):
                return _from_variable(scene, node, variable)
    largest = max(
        (float(leaf.abs().max()) for leaf in leaves_of(scene.nodes) if leaf.numel()), default=0.0
    )
    if largest > HUGE:
        words = f"weights as large as {largest:.2g}"
        return Culprit("weights", scene.index[first], said(first), words)
    return Culprit("forward", scene.index[first], said(first), suppose(first))


def _takes_unseen(scene: Scene, node: Any) -> bool:
    """Whether an operation took a tensor without a graph of which it kept nothing."""
    without = any(each is None for each, _ in node.next_functions)
    return without and not any(True for _ in scene.constants(node))


def _before(node: Any, follow: Callable[[Any], bool] = lambda _: True) -> Iterator[Any]:
    """All nodes that an operation's inputs come from, past those that are to be followed."""
    waiting, seen = [node], {node}
    while waiting:
        for each in inputs(waiting.pop()):
            if each not in seen and follow(each):
                seen.add(each)
                waiting.append(each)
                yield each


def _from_outside(scene: Scene, node: Any, tensor: torch.Tensor) -> Culprit:
    """A tensor without a graph is bad: find the variable that it is, or was made from."""
    bad = [each for each in variables(scene.frame) if not is_finite(each.tensor)]
    same = [each for each in bad if _address(each.tensor) == _address(tensor)]
    others = [each for each in bad if has_nan(each.tensor) or _is_computed(each)]
    for variable in same or others:
        return _from_variable(scene, node, variable)
    words = "with a value that is not finite and was computed without a gradient"
    return Culprit("forward", scene.index[node], said(node), words)


def _is_computed(variable: Variable) -> bool:
    """Whether a variable comes from a line that can make finite numbers infinite."""
    made = assigned(variable)
    return made is not None and bool(made.operation)


def _from_variable(scene: Scene, node: Any, variable: Variable) -> Culprit:
    """The line that computed a bad variable, else the operation that took it as it came."""
    tensor = variable.tensor
    count = int((~torch.isfinite(tensor)).sum())
    words = f"{count} of {tensor.numel()} numbers of `{variable.name}` are not finite"
    made = assigned(variable)
    if made and made.operation:
        place = (*place_of(variable, made.line), "")
        if made.operation == WRITTEN:
            return Culprit("input", -1, "", words, place)
        why = _why(scene, variable, made) or words
        return Culprit("forward", -1, made.operation, why, place)
    return Culprit("input", scene.index[node], said(node), words)


def _why(scene: Scene, variable: Variable, made: Assigned) -> str:
    """What was wrong with the variable that the operation is taken of, if that is still there."""
    held = [each for each in variables(scene.frame) if each.code is variable.code]
    operands = [each.tensor for each in held if each.name == made.operand != variable.name]
    return next(filter(None, (explain_operand(made.operation, each) for each in operands)), "")


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _overwritten(bad: Sequence[torch.Tensor], frame: FrameType) -> Culprit | None:
    """Some numbers of one weight are bad: a step spoils all, a line of the script just these."""
    if len(bad) > 1:
        return None
    place = line_that_writes_nan(frame)
    words = "a line of the script writes a NaN into one of them"
    return Culprit("weights", -1, "", words, (*place, "")) if place[0] else None


def _through_weights(nodes: Sequence[Any], bad: Sequence[torch.Tensor]) -> Culprit:
    """Weights are bad already: by an operation with an infinite gradient, if there is one."""
    ids = {id(leaf) for leaf in bad}
    masked = {node for mask in nodes if is_mask(mask) for node in _before(mask)}
    ranked = []
    for index, node in enumerate(nodes):
        if _is_steep(node, node in masked):
            above = {id(leaf) for leaf in leaves_of([node, *_before(node)])}
            ranked.append((not ids <= above, len(above - ids), -index))
    if ranked:
        index = -min(ranked)[2]
        words = "whose slope is infinite at the edge of its range"
        return Culprit("backward", index, said(nodes[index]), words)
    first = next((index for index, node in enumerate(nodes) if _takes(node, ids)), 0)
    words = f"{len(bad)} parameters are not finite after an optimizer step"
    return Culprit("weights", first, said(nodes[first]), words)


def _takes(node: Any, ids: set[int]) -> bool:
    """Whether an operation, not a mere view, takes one of these leaves as they are or turned."""
    turned = [each for each in inputs(node) if each.name().startswith(VIEWS)]
    takes = any(id(leaf) in ids for leaf in leaves_of([node, *turned]))
    return takes and not node.name().startswith(VIEWS)


def _is_steep(node: Any, masked: bool) -> bool:
    name = node.name()
    if name.startswith("PowBackward") and not is_fractional_power(node):
        return masked and (getattr(node, "_saved_exponent", 1) or 1) < 0
    return bool(name.startswith(STEEP) or (masked and name.startswith(STEEP_IF_MASKED)))
