"""Flow: where the numbers of one step come from, and what they are used for."""

from itertools import chain
from typing import Any

from pitstop import internals
from pitstop.profile.hooks.waits import READS, crosses
from pitstop.profile.inspect.calls import Calls
from pitstop.profile.inspect.dependence import Dependence, Left
from pitstop.profile.inspect.gradients import Discarded, Gradients, held_by
from pitstop.profile.inspect.origins import Origins, accumulated
from pitstop.profile.inspect.tensors import tensors_in
from pitstop.profile.inspect.tree import Tree
from pitstop.profile.source.lines import Place


class Flow:
    """Calls, the dependence between them, and the gradients of one step."""

    def __init__(self, optimizers: list[Any], left: Left) -> None:
        tree = Tree()
        weights = chain.from_iterable((*m.parameters(), *m.buffers()) for m in tree.tops())
        states = [(held_by(each), list(each.state.values())) for each in optimizers]
        self.tree = tree
        self.dependence = Dependence((list(weights), states), left)
        self.gradients = Gradients(optimizers)
        self.calls = Calls(tree, self.dependence, self.gradients.owned)
        self.origins = Origins(self.calls)
        self.learned = 0  # calls behind the roots of all backward passes
        self._learning = 0  # backward passes that the script asked for and that still run
        self._zeros: set[int] = set()  # autograd nodes that multiply by zero

    def ran(
        self, func: Any, given: Any, result: Any, place: tuple[Place, bool], zero: bool
    ) -> None:
        """An operation ran at a line, in a backward pass or not; perhaps it multiplied by zero."""
        line, backward = place
        fresh = self.dependence.ran(line, given, result)
        if backward and (parameter := accumulated()) is not None:
            self.gradients.accumulates(parameter)
        if self._learning:
            return
        if not backward:
            self.gradients.sees(internals.schema(func).name, given, fresh)
        if (
            internals.schema(func).name in READS
            or func.namespace == "c10d"
            or crosses(func, given, result)
        ):
            self.dependence.leaves(given)
        if zero:
            self._zeros.add(self.origins.latest)
            self.dependence.zero(line, given, result)
        else:
            self.dependence.spread(func, given, fresh, self.calls.normalising)

    def learn(self, roots: Any, line: Place) -> None:
        """A backward pass begins: what its roots depend on is of use."""
        self._learning += 1
        tensors = tensors_in(roots)
        bits = self.dependence.bits(tensors) | self._behind([each.grad_fn for each in tensors])
        self.learned |= bits
        self.gradients.asks(each for top in self.tree.tops() for each in top.parameters())
        self.gradients.begins(line, bits)

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to step: calls after that have other weights."""
        self.calls.steps += 1
        self.gradients.steps(optimizer)

    def passes(self, position: int) -> list[int]:
        """The backward passes that a call is behind."""
        bit = self.calls.all[position].bit
        return [number for number, (_, bits) in enumerate(self.gradients.passes) if bits & bit]

    def learnt(self) -> None:
        """It is over."""
        self._learning -= 1
        self.gradients.ends()

    def unused(self) -> list[int]:
        """Calls whose result nothing depends on that was learned from, read, written or kept.

        What only serves terms multiplied by zero is another matter, see ``zeroed``.
        """
        flow = self.dependence
        needed = self.learned | flow.read | flow.written | flow.surviving()
        for bits in flow.zeroed.values():
            needed |= bits
        if not self.gradients.passes:
            needed |= self.calls.returned
        return [
            position
            for position, call in enumerate(self.calls.all)
            if call.produced and not call.recomputed and not needed & call.bit
        ]

    def zeroed(self) -> list[list[Any]]:
        """Lines that multiply a term by zero, and the calls that no backward pass needs else."""
        rows: list[list[Any]] = []
        for line, bits in self.dependence.zeroed.items():
            idle = bits & ~self.learned
            positions = [place for place in range(len(self.calls.all)) if idle >> place & 1]
            if positions and self.gradients.passes:
                rows.append([line, positions])
        return rows

    def discarded(self) -> list[Discarded]:
        """The gradients that were computed for nothing, by where their passes came to them."""
        found: dict[Place, Discarded] = {}
        passes = self.gradients.passes
        for number, lost in self.gradients.lost.items():
            line = self._fed_undetached(number)
            row = found.setdefault(line, Discarded(line, set(), {}))
            row.parameters.update(lost)
            for position in self._outermost(number):
                bit = self.calls.all[position].bit
                row.calls[position] = sum(bool(bits & bit) for _, bits in passes)
        return list(found.values())

    def _outermost(self, number: int) -> set[int]:
        """The outermost calls of what lost its gradients of a backward pass."""
        (_, bits), lost = self.gradients.passes[number], self.gradients.lost[number]
        found = set()
        for position, call in enumerate(self.calls.all):
            if (module := call.module()) is None or not call.bit & bits:
                continue
            if any(id(each) in lost for each in internals.own_parameters(module).values()):
                found.add(self.calls.outermost(position))
        return found

    def _fed_undetached(self, number: int) -> Place:
        """Where a backward pass came to what it computed for nothing.

        The module that did learn from it was given something still attached to the one that did
        not. Where there is no such call, it is the backward pass itself.
        """
        line, bits = self.gradients.passes[number]
        lost, used = self.gradients.lost[number], self.gradients.used.get(number, set())
        losing = 0
        for call in self.calls.all:
            if (module := call.module()) is None or not call.bit & bits:
                continue
            if call.fed & losing and any(id(each) in used for each in module.parameters()):
                return call.line
            if any(id(each) in lost for each in internals.own_parameters(module).values()):
                losing |= call.bit
        return line

    def _behind(self, nodes: list[Any]) -> int:
        """The calls that made the graph behind these nodes, up to products with zero."""
        found, seen, positions = 0, set(), set()
        waiting = [node for node in nodes if node is not None]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if (origin := self.origins.of(node)) is not None:
                positions.add(origin[1])
            if internals.sequence_number(node) not in self._zeros:
                waiting += [below for below, _ in node.next_functions if below is not None]
        for position in positions:
            found |= self.calls.bits_around(position)
        return found
