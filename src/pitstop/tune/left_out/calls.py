"""Calls: those that are to be left out, found again in the running script.

One step of the warm-up is watched whole: each call of a module with the user's lines that it is
made from. Then only the modules in question, and those around them, have something of ours around
their calls. Each result that a stand-in takes the place of was a real one first.
"""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from pitstop import internals
from pitstop.core.errors import PitstopError
from pitstop.profile.hooks.modules import compiled_anything
from pitstop.profile.inspect.calls import CALLING, MOST_LINES
from pitstop.profile.inspect.origins import in_backward
from pitstop.profile.inspect.tensors import tensors_in
from pitstop.profile.source.holders import Holders
from pitstop.profile.source.lines import NOWHERE, lines_within, user_line
from pitstop.tune.left_out.real_call import (
    Result,
    Signature,
    is_looked_at,
    side_effect,
    signature,
)
from pitstop.tune.left_out.stand_in import Claim, is_needed
from pitstop.tune.left_out.wanted import CALLS, Known, Lines, Why, read_calls

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

WATCHED = 2  # the last step that is watched, from 1: the first one builds what is built once
HELD = 4  # steps with stand-ins after which is looked who keeps them
FEW = 8  # of them, at the end of a step; the search for holders takes long
EVALUATED = "it is evaluated elsewhere, with statistics that these calls move"
OTHER_STEPS = "the calls of its steps are not those of the recorded one"


class _Open:
    """The calls that have begun and not ended, each known by ``names`` of modules.

    In the recording that is their class: only there all calls are seen. Later it is the module
    itself.
    """

    def __init__(self, name: Callable[[nn.Module], Any]) -> None:
        self.modules: list[nn.Module] = []
        self._name = name
        self._known: list[Any] = []
        self._counts: Counter[Any] = Counter()

    def begin(self, module: nn.Module, lines: Lines) -> Any:
        above = self._known[-1] if self._known else ()
        name = self._name(module)
        known = (*above, (name, lines, self._counts[above, name, lines]))
        self._counts[above, name, lines] += 1
        self.modules.append(module)
        self._known.append(known)
        return known

    def end(self) -> None:
        self.modules.pop()
        self._known.pop()

    def forget(self) -> None:
        """A step has ended."""
        self._counts.clear()


class Calls:
    """The calls of one place that nobody needs."""

    def __init__(self, script: "Script", wanted: set[Known], why: Why) -> None:
        self._script = script
        self._wanted = wanted
        self._claim = Claim(script.decline, why == "zero")
        self._seen = _Open(lambda module: type(module).__name__)  # in the step that is watched
        self._open = _Open(id)
        self._thread = get_ident()
        self._steps = 0
        self._steps_on = 0
        self._left_out = 0  # calls in this step
        self._hooks: list[Any] = []
        self._found: dict[Known, nn.Module] = {}  # while a step is watched, and only then
        self._left_calls: set[Any] = set()  # those found, as ``_open`` knows them
        self._all: dict[int, list[tuple[Known, tuple[nn.Module, ...]]]] = defaultdict(list)
        self._results: dict[tuple[int, Signature], Result] = {}
        self._probed: set[int] = set()
        self._evaluated: set[int] = set()  # modules, by id
        self._alone: set[int] = set()  # modules that are called by nobody who needs them
        self._watch()

    def step_ended(self) -> None:
        """Watch one step, then go on with what was found; see who keeps stand-ins."""
        self._steps += 1
        self._open.forget()
        self._seen.forget()
        if self._steps < WATCHED:
            self._found, self._all, self._left_calls = {}, defaultdict(list), set()
        elif self._steps == WATCHED:
            self._settle()
        if self._left_out:
            self._steps_on += 1
            self._left_out = 0
            if self._steps_on <= HELD:
                self._see_holders()
        self._claim.living.clear()
        for line in self._claim.read:
            self._script.loses(f"{line[0].rpartition('/')[2]}:{line[1]} would log another number")

    def backward(self, original: Callable[..., Any], roots: Any, *given: Any, **named: Any) -> Any:
        """A backward pass begins, and none of its roots may be a stand-in."""
        if (claim := is_needed(roots)) is not None:
            claim.against("it is learned from", user_line(sys._getframe(1)))
        return original(roots, *given, **named)

    # The step that is watched

    def _watch(self) -> None:
        self._hooks = [
            register_module_forward_pre_hook(self._begins),
            register_module_forward_hook(self._ends, always_call=True),
        ]

    def _begins(self, module: nn.Module, _: Any) -> None:
        if get_ident() != self._thread or in_backward():
            return
        if not module.training:
            self._evaluated.add(id(module))
        lines = _lines(sys._getframe(1), inside=False)
        known, own = self._seen.begin(module, lines), self._open.begin(module, lines)
        self._all[id(module)].append((known, tuple(self._open.modules)))
        if known in self._wanted:
            self._found[known] = module
            self._left_calls.add(own)

    def _ends(self, module: nn.Module, *_: Any) -> None:
        begun = any(each is module for each in self._open.modules)
        if begun and get_ident() == self._thread and not in_backward():
            while self._open.modules[-1] is not module:
                self._end()
            self._end()

    def _end(self) -> None:
        self._open.end()
        self._seen.end()

    def _settle(self) -> None:
        for hook in self._hooks:
            hook.remove()
        if compiled_anything():
            self._script.decline("parts of it are compiled")
        elif len(self._found) < len(self._wanted):
            self._script.decline(OTHER_STEPS)
        else:
            targets = {id(each): each for each in self._found.values()}
            around = {
                id(module): module
                for target in targets
                for _, above in self._all[target]
                for module in above
            }
            self._alone = {each for each in targets if self._is_alone(targets[each])}
            for module in around.values():
                self._script.wrap(module, self._around, while_off=True)
        self._found, self._all = {}, defaultdict(list)

    def _is_alone(self, target: nn.Module) -> bool:
        """Whether all calls of it and of its parts may be left out, here or elsewhere."""
        parts = [part for part in target.modules() if internals.own_buffers(part)]
        calls = [known for part in (target, *parts) for known, _ in self._all[id(part)]]
        nobodys = set().union(*(read_calls(str(each[CALLS])) for each in self._script.siblings))
        return all(
            any(known[:length] in nobodys for length in range(1, len(known) + 1)) for known in calls
        )

    # All later ones

    def _around(
        self, call: Callable[..., Any], module: nn.Module, *given: Any, **named: Any
    ) -> Any:
        if get_ident() != self._thread or self._script.has_declined or is_looked_at():
            return call(*given, **named)
        if in_backward():
            self._script.decline("it is computed again in the backward pass")
            return call(*given, **named)
        known = self._open.begin(module, _lines(sys._getframe(1), inside=True))
        try:
            if known in self._left_calls:
                return self._left(call, module, given, named)
            if id(module) in self._alone and not module.training:
                self._script.decline(EVALUATED)
            return call(*given, **named)
        finally:
            self._open.end()

    def _left(self, call: Callable[..., Any], module: nn.Module, given: Any, named: Any) -> Any:
        key = id(module), signature((given, named))
        known = self._results.get(key)
        if known is not None and self._script.on:
            self._left_out += 1
            return known.stand_in(tensors_in((given, named)), self._claim)
        if known is not None:
            return call(*given, **named)
        drawn = _drawn()
        result = call(*given, **named)
        self._draws(drawn)
        self._probe(module, given, named)
        if not self._script.has_declined:
            self._learn(key, result, given, named)
        return result

    def _learn(self, key: tuple[int, Signature], result: Any, given: Any, named: Any) -> None:
        try:
            self._results[key] = Result(result, tensors_in((given, named)))
        except PitstopError:
            self._script.decline("its result is more than tensors")
        self._script.applied()

    def _probe(self, module: nn.Module, given: Any, named: Any) -> None:
        """Once for each module: whether it does anything else."""
        if id(module) in self._probed:
            return
        self._probed.add(id(module))
        if effect := side_effect(module, given, named):
            self._script.decline(effect)
        elif id(module) in self._alone and (norms := _norms(module)):
            if self._evaluated & {id(each) for each in norms}:
                self._script.decline(EVALUATED)
            self._script.leaves(norms)
            self._script.loses(
                f"the running statistics of {type(module).__name__} would stand still"
            )

    def _draws(self, before: tuple[Any, ...]) -> None:
        if any(not torch.equal(*both) for both in zip(before, _drawn(), strict=True)):
            self._script.draws_otherwise()

    def _see_holders(self) -> None:
        living = [each for one in self._claim.living if (each := one()) is not None]
        for each in living[:FEW]:
            holder = Holders(sys._getframe()).of(each)
            if holder.owner or _is_read_by_functions(holder.name, holder.path):
                self._claim.against(f"its result is kept in {holder.name}")


def _norms(module: nn.Module) -> list[nn.Module]:
    """The layers whose statistics its calls move, which training itself never reads."""
    known = (each for each in module.modules() if isinstance(each, internals.NormWithStatistics))
    return [each for each in known if each.training and each.running_mean is not None]


def _is_read_by_functions(name: str, path: str) -> bool:
    """Whether a function of a file reads a global of that name; the top level is the step."""
    if not path:
        return False
    modules = [each for each in sys.modules.values() if getattr(each, "__file__", None) == path]
    codes = [
        each.__code__
        for module in modules
        for each in vars(module).values()
        if hasattr(each, "__code__")
    ]
    return any(name in code.co_names for code in codes)


def _lines(frame: Any, inside: bool) -> Lines:
    """The user's lines that a call is made from, as a recording has them."""
    line, *through = lines_within(frame, CALLING, MOST_LINES, int(inside)) or [NOWHERE]
    if line == NOWHERE:
        line = user_line(frame)
    return tuple((path, number) for path, number, _ in (line, *through))


def _drawn() -> tuple[torch.Tensor, ...]:
    """The state of the generators that a module draws from."""
    cuda = [torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else []
    python = torch.tensor([hash(random.getstate())])
    return torch.get_rng_state(), *cuda, python
