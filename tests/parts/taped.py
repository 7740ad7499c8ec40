"""A tape stands in for a GPU: what is captured computes nothing, what is replayed is computed anew.

Operations are noted below autograd, and taken back. All tapes of a device share their memory: each
replay spoils what the others have left there, as on a GPU, but for those that it reads itself.
"""

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


class Tape(TorchDispatchMode):
    """One captured run."""

    def __init__(self, device):
        super().__init__()
        self.device, self.operations = device, []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        if function is torch.ops.aten._local_scalar_dense.default:  # Python asks for a number
            raise RuntimeError("operation not permitted when stream is capturing")
        result = function(*arguments, **options)
        self.operations.append((function, *map(addresses, (arguments, options, result))))
        return result

    @property
    def made(self):
        """All tensors that it leaves in the shared memory."""
        there = set()
        for _, arguments, options, result in self.operations:
            given = {memory(each) for each in tensors((arguments, options))}
            for each in tensors(result):
                if memory(each) not in given | there:
                    there.add(memory(each))
                    yield each

    def reads(self):
        return {memory(x) for _, *given, _ in self.operations for x in tensors(given)}

    def replay(self):
        self.device.replays += 1
        read = self.reads()
        with torch.no_grad():
            for other in self.device.tapes:
                made = list(other.made)
                if other is not self and not any(memory(each) in read for each in made):
                    for each in made:
                        each.data.fill_(77)
            for function, arguments, options, result in self.operations:
                again = function(*arguments, **options)
                given = {memory(each) for each in tensors((arguments, options))}
                for old, new in zip(tensors(result), tensors(again), strict=True):
                    if memory(old) not in given:
                        old.data.copy_(new)


class Taped:
    """The device of one model."""

    def __init__(self, model):
        self.model, self.tapes, self.replays = model, [], 0
        self.current, self.waited = 0, []

    def is_free(self):
        return True

    def stream(self):
        return self.current

    @contextmanager
    def waits(self):
        yield self.waited

    def capture(self, run):
        own = [*self.model.parameters(), *self.model.buffers()]
        before = [each.detach().clone() for each in own]
        tape = Tape(self)
        with tape:
            result = run()
        with torch.no_grad():
            for each, value in zip(own, before, strict=True):
                if not torch.equal(each, value):
                    each.data.copy_(value)  # a capture counts no changes
        self.tapes.append(tape)
        return tape.replay, result


def addresses(tree):
    """The same tensors as a graph knows them: by where they lie now, whatever becomes of them."""
    return tree_map_only(torch.Tensor, torch.Tensor.detach, tree)


def memory(tensor):
    return tensor.untyped_storage()._cdata


def tensors(tree):
    return [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]
