"""Non-finite: where the first number that is not finite came from.

When the root of a backward pass is not finite, the graph behind it is still whole. Its nodes keep
many of the tensors that went through them; the earliest that is bad, and what went into it, tell
whether the input, the forward pass, an earlier backward pass or the weights are to blame. It is
looked at once. Nothing is computed with gradients, nothing random, and nothing is kept but names.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from types import FrameType
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.forensics.culprit import Culprit, find_culprit
from pitstop.profile.forensics.graph import NOWHERE, Place, Reference, nodes_of, place, reference
from pitstop.profile.inspect.flow import Flow

REFERENCES = 16  # backward passes of inspected steps whose lines are kept
LOSSES = 16  # before the bad one, to see whether they grew
GROWTH = 100.0  # times the usual loss: then the training went astray before a number overflowed
ASTRAY = 1e3  # a loss below this may have grown from nearly nothing, which is no explosion
LATE_TRIES = 8  # backward passes looked at on a GPU, where a bad loss is known a step too late


@dataclass(frozen=True, slots=True)
class Suspect:
    """What was found at the bad step; its line may only be known after the next inspected one."""

    step: int
    culprit: Culprit
    names: tuple[str, ...] = ()


class Forensics:
    """Follows the losses of a run; examines the first one that is not finite."""

    def __init__(self) -> None:
        self._references: deque[Reference] = deque(maxlen=REFERENCES)
        self._losses: deque[float] = deque(maxlen=LOSSES)
        self._suspect: Suspect | None = None
        self._late = 0  # backward passes still to be looked at because of a loss known late
        self._over = False

    @property
    def wants_inspection(self) -> bool:
        """Whether the next step should be inspected, to learn the lines of the operations."""
        return self._suspect is not None

    def learn(self, root: Any, flow: Flow) -> None:
        """A backward pass of an inspected step begins: remember where its operations were."""
        if isinstance(root, torch.Tensor) and root.grad_fn is not None:
            self._references.append(reference(root, lambda node: _place(node, flow)))

    def known_late(self) -> None:
        """The loss of an earlier step turns out not to be finite: look at the next ones."""
        if not self._over and not self._late:
            self._late = LATE_TRIES

    def is_usual(self, loss: Any) -> bool:
        """Whether there is nothing to look into: it is finite or, on a GPU, not known yet."""
        if not isinstance(loss, float):
            return not self._late
        if math.isfinite(loss):
            self._losses.append(loss)
            return True
        return False

    def backward_begins(self, root: Any, loss: Any, step: int, frame: FrameType) -> None:
        """Look at the loss, and at the graph behind it if this is the first bad one."""
        if self._over or not isinstance(root, torch.Tensor) or self.is_usual(loss):
            return
        if not isinstance(loss, float) and math.isfinite(float(root.detach())):
            self._late -= 1
            return
        self._over = True
        step = 0 if self._late else step  # it was an earlier one
        self._suspect = Suspect(step, Culprit())
        self._suspect = self._examined(root, step, frame)

    def note(self, last: bool = False) -> Iterator[dict[str, Any]]:
        """The line for the recording, once, as soon as the place is known or never will be.

        A graph that none of the inspected ones equals may have run what they did not: the next
        step is looked at, and only then the most similar graph must do.
        """
        if self._suspect and (last or self._is_placed(self._suspect)):
            suspect, self._suspect = self._suspect, None
            culprit = suspect.culprit
            path, line, function, module = culprit.place
            if culprit.index >= 0 and not path:
                found = place(suspect.names, culprit.index, self._references)
                path, line, function, module = found
            yield {
                "non_finite": {
                    "step": suspect.step,
                    "phase": culprit.phase,
                    "where": [path, line, function],
                    "module": module,
                    "operation": culprit.operation,
                    "detail": culprit.detail,
                }
            }

    def _is_placed(self, suspect: Suspect) -> bool:
        known = suspect.culprit.index < 0 or suspect.culprit.place[0]
        return bool(known) or any(each.names == suspect.names for each in self._references)

    def _examined(self, root: Any, step: int, frame: FrameType) -> Suspect:
        if root.grad_fn is None:
            return Suspect(step, Culprit())
        with torch.no_grad(), internals.without_modes():
            nodes = nodes_of(root)
            culprit = find_culprit(root, nodes, frame)
        if self._late and culprit.phase in {"backward", "weights"}:
            culprit = Culprit()  # the weights are bad by now whatever it was that made them so
        growth = self._growth()
        if growth and culprit.phase in {"forward", "backward", "weights"}:
            culprit = replace(culprit, phase="weights", detail=growth)
        return Suspect(step, culprit, tuple(node.name() for node in nodes))

    def _growth(self) -> str:
        """How the loss grew before it was lost; empty where it did not."""
        losses = [abs(loss) for loss in self._losses]
        if len(losses) < 2:
            return ""
        usual = median(losses)
        if losses[-1] <= max(ASTRAY, GROWTH * usual):
            return ""
        return f"the loss had grown from {usual:.3g} to {losses[-1]:.3g}"


def _place(node: Any, flow: Flow) -> Place:
    """Line and module of the operation that made a node in an inspected step."""
    origin = flow.origins.of(node)
    if origin is None:
        return NOWHERE
    line, call = origin
    return (*line, flow.calls.all[call].path if call >= 0 else "")
