"""Real call: what a call returns and what its gradients reach, and whether that is all it does.

A call that may be left out does nothing but return tensors. One that keeps a tensor in a global or
in an attribute, writes into its inputs, counts, or reads numbers may be of use to somebody who is
not seen in the step that was recorded.
"""

import gc
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from pitstop import internals
from pitstop.core.errors import PitstopError
from pitstop.parts.reuse.results import changed
from pitstop.profile.hooks.waits import READS
from pitstop.profile.inspect.dependence import written_by
from pitstop.profile.inspect.tensors import storages_in, tensors_in
from pitstop.tune.bench.state import Generators
from pitstop.tune.left_out.stand_in import Claim, ZeroGradients, stand_in

NUMBERS = (bool, int, float, str)
Signature = tuple[Any, ...]


class Result:
    """What a call with such inputs returns, ready to be handed out without it."""

    def __init__(self, result: Any, inputs: list[torch.Tensor]) -> None:
        self._result = changed(result, lambda each: each.detach())
        returned = tensors_in(result)
        self._zeros = [_zeros_like(each) for each in returned]
        self._learns = [each.requires_grad for each in returned]
        reached = list(_leaves([each.grad_fn for each in returned], inputs))
        ids = {id(each) for each in reached}
        self._inputs = [place for place, each in enumerate(inputs) if id(each) in ids]
        self._leaves = [each for each in reached if all(each is not one for one in inputs)]

    def stand_in(self, inputs: list[torch.Tensor], claim: Claim) -> Any:
        """The same containers around zeros."""
        zeros = [each.data for each in self._zeros]  # new tensors of the same memory
        leaves = [inputs[place] for place in self._inputs] + self._leaves
        if torch.is_grad_enabled() and any(self._learns) and leaves:
            learned = [each for each, asked in zip(zeros, self._learns, strict=True) if asked]
            made = iter(ZeroGradients.apply(learned, *leaves))  # type: ignore[no-untyped-call]
            both = zip(zeros, self._learns, strict=True)
            zeros = [next(made) if asked else each for each, asked in both]
        left = iter(zeros)
        return changed(self._result, lambda _: stand_in(next(left), claim))


def signature(values: Any) -> Signature:
    """What decides on the shape of a result."""
    kinds = [
        (tuple(each.shape), each.dtype, each.device, each.requires_grad)
        for each in tensors_in(values)
    ]
    plain = [each for each in internals.tree_leaves(values) if isinstance(each, NUMBERS)]
    return (*kinds, *plain, torch.is_grad_enabled())


def side_effect(module: nn.Module, given: Any, named: Any) -> str:
    """What a call does beside returning tensors; empty where that is all. It is called once."""
    try:
        changed(given, lambda each: each)
    except PitstopError:
        return "it is given more than tensors"
    owned = [internals.own_buffers(part) for part in module.modules()]
    kept = [dict(each) for each in owned]
    for each in owned:  # autograd would notice that their own memory was written to
        each.update({name: one.clone() for name, one in each.items() if one is not None})
    numbers = [(part, _numbers(part)) for part in module.modules()]
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    watch = _Watch(owned)
    drawn = Generators()
    try:
        with watch:
            internals.call_of(module)(*given, **named)  # past all that keeps its result for a while
    finally:
        drawn.put_back()
        torch.set_autocast_cache_enabled(cached)
        for each, before in zip(owned, kept, strict=True):
            each.update(before)
    counted = [part for part, known in numbers if _numbers(part) != known]
    for part, known in numbers:
        vars(part).update(known)
    if counted:
        return f"its {type(counted[0]).__name__} counts its calls"
    return watch.seen or watch.keeps()


def is_looked_at() -> bool:
    """Whether a call runs only to see what it does."""
    return any(isinstance(each, _Watch) for each in internals.dispatch_mode_stack())


class _Watch(internals.TorchDispatchMode):
    """Sees what a call reads, and into what it writes."""

    def __init__(self, own: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = ""
        self._own = {internals.storage_key(each) for each in storages_in(own)}
        self._born: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if internals.schema(func).name in READS:
            self.seen = self.seen or "its forward reads numbers"
        before = {internals.storage_key(each) for each in storages_in((args, kwargs))}
        for each in storages_in(written_by(func, args, kwargs)):
            key = internals.storage_key(each)
            if key not in self._own and key not in self._born:
                self.seen = self.seen or "its forward writes into what it is given"
        for each in storages_in(result):
            key = internals.storage_key(each)
            if key not in before and key not in self._born:
                self._born[key] = StorageWeakRef(each)
        return result

    def keeps(self) -> str:
        """Whether anything of the call lives on, though its result does not."""
        gc.collect()
        alive = any(not each.expired() for each in self._born.values())
        return "its forward, or a hook in it, keeps what it has computed" if alive else ""


def _numbers(module: nn.Module) -> dict[str, Any]:
    return {key: each for key, each in vars(module).items() if isinstance(each, NUMBERS)}


def _zeros_like(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.zeros_like(tensor, memory_format=torch.preserve_format).detach()


def _leaves(nodes: list[Any], inputs: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The parameters and inputs that a backward pass comes to from these nodes of the graph."""
    by_node = {each.grad_fn: each for each in inputs if each.grad_fn is not None}
    waiting, seen = [each for each in nodes if each is not None], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in by_node:
            yield by_node[node]
        elif (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        else:
            waiting += [below for below, _ in node.next_functions if below is not None]
