"""Calls: every call of a module in one step, what it was given and what it gave back."""

import sys
import weakref
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from pitstop import internals
from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.inspect.checksum import checksum, thinned
from pitstop.profile.inspect.dependence import Dependence
from pitstop.profile.inspect.tensors import identity, shapes_of, tensors_in
from pitstop.profile.inspect.tree import Tree
from pitstop.profile.source.lines import NOWHERE, Place, lines_within, user_line

CALLING = "_call_impl"  # the function of torch in which a module's forward runs
MOST_LINES = 8  # of the user's functions around a call; deeper ones lead out of the model


@dataclass(slots=True, eq=False)
class Call:
    """One call; what is known at its end is filled in then."""

    module: weakref.ref[torch.nn.Module]
    path: str
    kind: str
    line: Place
    parent: int
    bit: int
    parameters: int
    frozen: bool
    training: bool
    recomputed: bool
    normalises: bool
    new: bool  # not there when the step began
    through: list[Place]  # the user's lines around ``line``, up to the call that this is made from
    fed: int = 0  # calls behind those inputs that carry a gradient
    shapes: list[str] = field(default_factory=list)
    inputs: list[tuple[int, int]] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    chained: bool = False
    graph: bool = False
    produced: bool = False  # returned a tensor, so that it can be asked whether that was used
    asks: bool = False  # an input asks for a gradient
    interval: int = 0  # optimizer steps before it

    def row(self, unused: bool, passes: list[int]) -> list[Any]:
        """The call as ``inspection`` reads it: the fields of ``ModuleCall`` in their order.

        ``again`` is told later, when the steps before are known.
        """
        shapes, content = " ".join(self.shapes), "-".join(self.content)
        flags = [self.training, self.graph, self.recomputed, unused, self.chained]
        known = [self.path, self.kind, self.line, self.parent, shapes, self.inputs, self.frozen]
        since = [self.interval, passes, self.asks]
        return [*known, self.parameters, *flags, content, self.through, False, *since]


class Calls:
    """The calls of one step, in their order; the position of a call is its number."""

    def __init__(self, tree: Tree, dependence: Dependence, trained: set[int]) -> None:
        self._trained = trained  # ids of the parameters that an optimizer holds
        self.all: list[Call] = []
        self.autocast = ""  # the type that the first model call ran under, if any
        self.device = ""
        self.steps = 0  # of optimizers so far
        self.returned = 0  # bits behind what the outermost calls gave back
        self._tree = tree
        self._dependence = dependence
        self._thread = get_ident()
        self._open: list[int] = []
        self._own: dict[int, int] = {}  # bits of all calls of one module so far, by its id
        self._latest: dict[int, int] = {}  # the last call of a module that was no recomputation
        self._handles: list[Any] = []

    def start(self) -> None:
        """Listen."""
        self._handles = [
            register_module_forward_pre_hook(partial(attempt, self._before)),
            register_module_forward_hook(
                partial(attempt, self._after), with_kwargs=True, always_call=True
            ),
        ]

    def stop(self) -> None:
        """Leave the modules as they were."""
        for handle in self._handles:
            handle.remove()

    @property
    def current(self) -> int:
        """The innermost call that has begun and not ended; -1: none."""
        return self._open[-1] if self._open else -1

    @property
    def recomputing(self) -> bool:
        """Whether that one is a forward pass done again for a backward pass."""
        return bool(self._open) and self.all[self._open[-1]].recomputed

    @property
    def normalising(self) -> bool:
        """Whether that one keeps running statistics."""
        return bool(self._open) and self.all[self._open[-1]].normalises

    def bits_around(self, position: int) -> int:
        """The bits of a call and of the calls it was made from."""
        bits = 0
        while position >= 0:
            bits |= self.all[position].bit
            position = self.all[position].parent
        return bits

    def outermost(self, position: int) -> int:
        """The call of the script itself that this one is a part of."""
        while self.all[position].parent >= 0:
            position = self.all[position].parent
        return position

    def _listens(self) -> bool:
        return get_ident() == self._thread or internals.backward_pass() != -1

    def _before(self, module: Any, args: Any) -> None:
        if not self._listens():
            return
        call = self._begun(module)
        self._given(call, args)
        self._open.append(len(self.all))
        self.all.append(call)
        self._dependence.open |= call.bit
        self._own[id(module)] = self._own.get(id(module), 0) | call.bit
        if not call.recomputed:
            self._latest[id(module)] = self._open[-1]
        if len(self._open) == 1:
            self._look_around(module)

    def _after(self, module: Any, _: Any, kwargs: Any, result: Any) -> None:
        if not self._listens() or (call := self._ended(module)) is None:
            return
        if kwargs:
            self._given(call, kwargs)
        outputs = tensors_in(result)
        call.produced = bool(outputs)
        call.graph = any(each.requires_grad for each in outputs)
        self._dependence.mark(outputs, call.bit)
        if not self._open:
            self.returned |= self._dependence.bits(outputs)

    def _ended(self, module: Any) -> Call | None:
        """Close the module's call, and any inside it that did not end by themselves."""
        if not any(self.all[position].module() is module for position in self._open):
            return None  # begun before the step
        while True:
            call = self.all[self._open.pop()]
            self._dependence.open &= ~call.bit
            if call.module() is module:
                return call

    def _begun(self, module: Any) -> Call:
        new = not self._open and not self._tree.knows(module)
        if new:
            self._tree.add(module)
        recomputed = internals.backward_pass() != -1
        parent = self.current
        if recomputed and parent < 0 and id(module) in self._latest:
            parent = self.all[self._latest[id(module)]].parent  # where it was called first
        parameters = list(module.parameters())
        line, *through = lines_within(sys._getframe(2), CALLING, MOST_LINES) or [NOWHERE]
        if line == NOWHERE:
            line = user_line(sys._getframe(2))
        return Call(
            module=weakref.ref(module),
            path=self._tree.path(module),
            kind=type(module).__name__,
            line=line,
            parent=parent,
            bit=1 << len(self.all),
            parameters=sum(each.numel() for each in parameters),
            frozen=not any(each.requires_grad or id(each) in self._trained for each in parameters),
            training=module.training,
            recomputed=recomputed,
            normalises=isinstance(module, internals.NormWithStatistics),
            new=new,
            through=through,
            interval=self.steps,
        )

    def _given(self, call: Call, values: Any) -> None:
        """Note the tensors that a call is given; those given by name are seen at its end."""
        tensors = tensors_in(values)
        call.inputs += [identity(each) for each in tensors]
        call.shapes += [shapes_of(tensors)] if tensors else []
        earlier = self._own.get(id(call.module()), 0) & ~call.bit
        call.chained |= bool(self._dependence.bits(tensors) & earlier)
        call.asks |= any(each.requires_grad for each in tensors)
        call.fed |= self._dependence.bits([each for each in tensors if each.requires_grad])
        if tensors and self._is_outermost_frozen(call):
            with internals.without_modes():
                call.content += [attempt(_content, tensors, call.module(), otherwise="")]

    def _is_outermost_frozen(self, call: Call) -> bool:
        around = (self.all[position] for position in self._open)
        return _is_frozen(call) and not any(_is_frozen(each) for each in around)

    def _look_around(self, module: Any) -> None:
        """Where the first model of the step has its parameters, and under which autocast."""
        parameter = next(module.parameters(), None)
        if parameter is None:
            return
        kind = parameter.device.type
        self.device = self.device or kind
        if not self.autocast and torch.is_autocast_enabled(kind):
            self.autocast = str(torch.get_autocast_dtype(kind)).removeprefix("torch.")


def _content(tensors: list[torch.Tensor], module: Any) -> str:
    """A checksum of what a module is given, and of some weights: others may be averaged in them."""
    parameters = [each.detach() for each in module.parameters()]
    return checksum([*tensors, thinned(parameters[0]), thinned(parameters[-1])])


def _is_frozen(call: Call) -> bool:
    return call.frozen and call.parameters > 0
