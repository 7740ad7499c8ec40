"""Dependence: which module calls each tensor was computed from.

A tensor's memory carries one bit for each module call that had a part in its content: those the
operation ran in, and those behind the operation's inputs. Views share memory, so they share bits.
Weights and buffers carry none: their content is older than the step. What a backward pass
computes carries none either, for all that its root needed is noted when it starts.
"""

from itertools import chain
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pitstop import internals
from pitstop.profile.inspect.tensors import storages_in
from pitstop.profile.source.lines import NOWHERE, Place

# Operations that put numbers of Python's own, perhaps read from a tensor before, into a new one.
FROM_HOST = {"aten::lift_fresh", "aten::full", "aten::scalar_tensor", "aten::fill_"}
TIMES = {"aten::mul", "aten::mul_"}

Storages = list[torch.UntypedStorage]
Left = dict[int, tuple[Place, StorageWeakRef]]  # memory by number: its line, and whether it lives


class Dependence:
    """The bits of one step."""

    def __init__(self, state: Any, left: Left) -> None:
        self.open = 0  # bits of the calls that have begun and not ended
        self.read = 0  # of all that left torch: read by Python, sent to other processes
        self.written = 0  # of all that was written into weights and buffers
        self.zeroed: dict[Place, int] = {}  # of the terms multiplied by zero, by line
        self.born: dict[int, tuple[Place, int, StorageWeakRef]] = {}
        self._left = left  # what the step before left behind
        self._read_again: set[Place] = set()
        self._bits: dict[int, int] = {}
        self._references: dict[int, StorageWeakRef] = {}  # an address in use is not used again
        self._state = {self._refer(each) for each in storages_in(state)}
        self._zero: set[int] = set()

    def bits(self, values: Any) -> int:
        """The calls behind the tensors among these values."""
        found = 0
        for storage in storages_in(values):
            found |= self._bits.get(internals.storage_key(storage), 0)
        return found

    def mark(self, values: Any, bits: int) -> None:
        """These tensors depend on these calls as well."""
        for storage in storages_in(values):
            self._add(storage, bits)

    def leaves(self, values: Any) -> None:
        """These tensors are read by Python, or by something that torch does not see."""
        self.read |= self.bits(values)
        numbers = {internals.storage_key(storage) for storage in storages_in(values)}
        self._read_again.update(self._left[each][0] for each in numbers & self._left.keys())

    def ran(self, line: Place, given: Any, result: Any) -> Storages:
        """An operation ran; the memory that its result does not share with what it was given."""
        inputs = {internals.storage_key(storage) for storage in storages_in(given)}
        self._read_again.update(self._left[each][0] for each in inputs & self._left.keys())
        fresh = [each for each in storages_in(result) if internals.storage_key(each) not in inputs]
        for storage in fresh:
            if internals.storage_key(storage) not in self._references:
                number = self._refer(storage)
                self.born[number] = line, storage.nbytes(), self._references[number]
        return fresh

    def spread(self, func: Any, given: Any, fresh: Storages, normalises: bool) -> None:
        """What an operation wrote depends on what it was given, and on the calls it ran in."""
        bits = self.bits(given)
        if internals.schema(func).name in FROM_HOST:
            bits |= self.read
        for storage in chain(fresh, storages_in(written_by(func, *given))):
            self._add(storage, bits | self.open)
            if internals.storage_key(storage) in self._state and not normalises:
                self.written |= bits  # running statistics serve nobody in this step

    def zero(self, line: Place, given: Any, result: Any) -> None:
        """A product with zero depends on nothing; note what it would have depended on."""
        self.zeroed[line] = self.zeroed.get(line, 0) | self.bits(given) & ~self.open
        for storage in storages_in(result):
            self._bits[self._refer(storage)] = self.open
            self._zero.add(internals.storage_key(storage))

    def times_zero(self, func: Any, args: Any) -> bool:
        """Whether the operation multiplies by zero: by a number, or by a tensor that is a weight.

        A learned factor may start at zero and is no such weight; a loss may be zero by itself.
        """
        return internals.schema(func).name in TIMES and any(
            self._is_zero(each) for each in args[:2]
        )

    def surviving(self) -> int:
        """Bits of the memory that lives on, but for loop variables.

        Those are told by the step before: what its lines left behind was dropped unread.
        """
        lives_on = {line for line, memory in self._left.values() if not memory.expired()}
        dropped = {line for line, _ in self._left.values()} - lives_on - self._read_again
        found = 0
        for number, bits in self._bits.items():
            line = self.born[number][0] if number in self.born else NOWHERE
            if line not in dropped and not self._references[number].expired():
                found |= bits
        return found

    def left(self) -> Left:
        """What this step leaves behind."""
        return {
            number: (line, memory)
            for number, (line, _, memory) in self.born.items()
            if number in self._bits and not memory.expired()
        }

    def _is_zero(self, factor: Any) -> bool:
        if isinstance(factor, int | float):
            return factor == 0
        if not isinstance(factor, torch.Tensor) or factor.dim() or factor.is_meta:
            return False  # one element of more dimensions may be a mask of a batch of one
        number = internals.storage_key(factor.untyped_storage())
        weight = not factor.requires_grad and not self._bits.get(number, 0) & ~self.open
        return (weight or number in self._zero) and not factor.item()

    def _add(self, storage: torch.UntypedStorage, bits: int) -> None:
        if bits and internals.storage_key(storage) not in self._state:
            number = self._refer(storage)
            self._bits[number] = self._bits.get(number, 0) | bits

    def _refer(self, storage: torch.UntypedStorage) -> int:
        number: int = internals.storage_key(storage)
        if number not in self._references:
            self._references[number] = StorageWeakRef(storage)
        return number


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that an operation changes."""
    written = []
    for place, argument in enumerate(internals.schema(func).arguments):
        if argument.alias_info and argument.alias_info.is_write:
            if place < len(args):
                written.append(args[place])
            elif argument.name in kwargs:
                written.append(kwargs[argument.name])
    return written
