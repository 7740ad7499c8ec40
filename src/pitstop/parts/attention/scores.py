"""Scores of attention that wait until it is known what becomes of them.

``scores`` stands where a function multiplied queries and keys. It hands back a ``Scores``: what is
added to it, its softmax and other shapes of it are noted down (``recipe``), not computed. In the
product with the values it is either attention as ``window_attention`` takes it, and our kernel or
torch's fused one computes it; or everything is done as it was written, in that order, to the last
bit. So it is with an operation that has no note: the tensor is made first. ``pattern`` sees to it
that a ``Scores`` never leaves its function.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.attention import equation
from pitstop.parts.attention.recipe import NOTES, PRODUCTS, Noted, Recipe
from pitstop.parts.group_norm.fuse_group_norm import is_plain
from pitstop.parts.record import is_transformed
from pitstop.parts.windows.attention import RUNS
from pitstop.parts.windows.ways import Way, call_of, choose

Maybe = torch.Tensor | None
PLAIN = {torch.Tensor, nn.Parameter}  # what a subclass means by a product is its own affair
CHANGED = (
    "Attention cannot be fused here: a tensor of {} was changed in place between the two products. "
    "Leave this model out of fuse_attention."
)


def scores(
    owner: Any, modules: tuple[str, ...], function: Callable[..., Any] | None, *given: Any
) -> Any:
    """The product of queries and keys: its scores wait, where they can be told from the result.

    ``modules`` of ``owner`` are what they are handed to later; without a function it is ``@``.
    """
    function = operator.matmul if function is None else function
    if torch.compiler.is_compiling() or not _can_wait(owner, modules, given):
        return function(*given)
    if isinstance(given[0], str):
        if not equation.is_scores(given[0]):
            return function(*given)
        query, key = given[1], given[2].transpose(-2, -1)
    else:
        query, key = given
    if query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-2]:
        return function(*given)
    shape = torch.Size((*query.shape[:-1], key.shape[-1]))
    return Scores(Recipe(query, key), shape, partial(function, *given), _seen(query, key))


def _can_wait(owner: Any, modules: tuple[str, ...], given: tuple[Any, ...]) -> bool:
    tensors = given[-2:]
    return (
        all(type(each) in PLAIN and each.dim() in {3, 4} for each in tensors)
        and tensors[0].is_floating_point()
        and not is_transformed()
        and not internals.is_tracing()
        and not torch.are_deterministic_algorithms_enabled()  # torch's own fused one is none
        and all(_does_nothing_else(owner, each) for each in modules)
        and not (modules and _watched())
    )


def _does_nothing_else(owner: Any, path: str) -> bool:
    """Whether a module is a softmax over the last axis, or dropout at rest, that nobody watches."""
    try:
        module = operator.attrgetter(path)(owner)
    except AttributeError:
        return False
    if type(module) is nn.Softmax:
        fits = module.dim == -1
    elif type(module) is nn.Dropout:
        fits = not (module.training and module.p)
    else:
        fits = type(module) is nn.Identity
    return fits and is_plain(module) and internals.compiled_call(module) is None


def _watched() -> bool:
    """Whether hooks of all modules are shown what goes in and out; ours look at tensors only."""
    of_all = torch.nn.modules.module
    hooks = (internals.global_forward_hooks(of_all), internals.global_pre_hooks(of_all))
    found = [each for some in hooks for each in some.values()]
    return any(not _module_of(each).startswith("pitstop.") for each in found)


def _module_of(hook: Any) -> str:
    return str(getattr(getattr(hook, "func", hook), "__module__", ""))


def _seen(*tensors: torch.Tensor) -> tuple[tuple[torch.Tensor, int], ...]:
    """Tensors with the number of changes in place that they have had."""
    return tuple([(each, internals.version(each)) for each in tensors if not each.is_inference()])


class Scores:
    """Scores, or the weights made of them, that are no tensor yet."""

    def __init__(
        self,
        recipe: Recipe,
        shape: torch.Size,
        make: Callable[[], torch.Tensor] | None,
        seen: tuple[tuple[torch.Tensor, int], ...],
        owner: "Scores | None" = None,
    ) -> None:
        self.recipe = recipe
        self.shape = shape
        self.seen = seen
        self.owner = owner  # whose memory it has
        self._made_of_it: list[ref[Scores]] = []
        self._make = make
        self._tensor: Maybe = None

    def tensor(self) -> torch.Tensor:
        """Compute it as it was written."""
        if self._tensor is None and self._make is not None:
            self.check()
            self._tensor, self._make = self._make(), None
        assert self._tensor is not None
        return self._tensor

    @property
    def waits(self) -> bool:
        """Whether nobody has asked for the numbers yet."""
        return self._tensor is None

    def check(self) -> None:
        """Raise where a tensor that it is made of was changed: better no numbers than others."""
        for tensor, version in self.seen:
            if internals.version(tensor) != version:
                raise RuntimeError(CHANGED.format(tuple(tensor.shape)))

    def then(
        self, noted: Noted, function: Callable[..., Any], given: tuple[Any, ...], more: Any
    ) -> "Scores":
        """What one more operation makes of it."""

        def make() -> torch.Tensor:
            result: torch.Tensor = function(*_made(given), **_made(more))
            return result

        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        seen = (*self.seen, *_seen(*tensors))
        owner = self if noted.same_memory else None
        made = Scores(noted.recipe, noted.shape, make, seen, owner)
        self._made_of_it.append(ref(made))
        return made

    def change(self, note: str, function: Callable[..., Any], other: Any) -> Any:
        """An operation in place: all names of this one see it, and nothing made of it before."""
        noted = None
        if self.waits and self.owner is None and not self._heirs():
            noted = NOTES[note](self.recipe, self.shape, (other,), 0, {})
        if noted is None:
            self._settle()
            return function(self.tensor(), _made(other))
        before = Scores(self.recipe, self.shape, self._make, self.seen)
        after = before.then(noted, function, (before, other), {})
        self.recipe, self.seen, self._make = after.recipe, after.seen, after._make
        return self

    def _heirs(self) -> list["Scores"]:
        living = [each() for each in self._made_of_it]
        return [each for each in living if each is not None]

    def _settle(self) -> None:
        """Compute whatever shares its memory, and what was made of that."""
        first = self
        while first.owner is not None:
            first = first.owner
        waiting = [first]
        while waiting:
            each = waiting.pop()
            each.tensor()
            waiting += each._heirs()

    # As a tensor

    def size(self, axis: int | None = None) -> Any:
        """Its shape, or the length of an axis."""
        return self.shape if axis is None else self.shape[axis]

    def dim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        _: Any,
        given: tuple[Any, ...] = (),
        more: dict[str, Any] | None = None,
    ) -> Any:
        """Note the operation down, or compute."""
        return _done(function, given, more or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = getattr(torch.Tensor, name, None)
        if callable(known):
            return lambda *given, **more: _done(known, (self, *given), more)
        return getattr(self.tensor(), name)

    def __add__(self, other: Any) -> Any:
        return _done(operator.add, (self, other), {})

    def __radd__(self, other: Any) -> Any:
        return _done(operator.add, (other, self), {})

    def __mul__(self, other: Any) -> Any:
        return _done(operator.mul, (self, other), {})

    def __rmul__(self, other: Any) -> Any:
        return _done(operator.mul, (other, self), {})

    def __truediv__(self, other: Any) -> Any:
        return _done(operator.truediv, (self, other), {})

    def __matmul__(self, other: Any) -> Any:
        return _done(operator.matmul, (self, other), {})

    def __iadd__(self, other: Any) -> Any:
        return self.change("add", operator.iadd, other)

    def __imul__(self, other: Any) -> Any:
        return self.change("mul", operator.imul, other)

    def __itruediv__(self, other: Any) -> Any:
        return self.change("div", operator.itruediv, other)


def _made(given: Any) -> Any:
    """The same arguments, as tensors."""
    if isinstance(given, Scores):
        return given.tensor()
    if type(given) in {tuple, list}:
        return type(given)(map(_made, given))
    if type(given) is dict:
        return {name: _made(each) for name, each in given.items()}
    return given


def _done(function: Callable[..., Any], given: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """What an operation makes of scores that wait; or the operation itself, on the tensor."""
    places = [place for place, each in enumerate(given) if isinstance(each, Scores)]
    alone = len(places) == 1 and not any(isinstance(each, Scores) for each in more.values())
    if alone and given[places[0]].waits:
        answer = _noted(function, given, more, places[0])
        if answer is not None:
            return answer
    return function(*_made(given), **_made(more))


def _noted(
    function: Callable[..., Any], given: tuple[Any, ...], more: dict[str, Any], place: int
) -> Any:
    waiting, others = given[place], (*given[:place], *given[place + 1 :])
    name = function.__name__.strip("_")
    if name in PRODUCTS:
        return None if more else _answer(waiting, others, place)
    if name not in NOTES:
        return None
    noted = NOTES[name](waiting.recipe, waiting.shape, others, place, more)
    return None if noted is None else waiting.then(noted, function, given, more)


def _answer(weights: Scores, others: tuple[Any, ...], place: int) -> Maybe:
    """Attention, if this is the product of weights and values and a fused way is faster."""
    value = others[-1]
    if isinstance(others[0], str):
        fits = place == 1 and len(others) == 2 and equation.is_answer(others[0])
    else:
        fits = place == 0 and len(others) == 1
    recipe, shape = weights.recipe, weights.shape
    if not (fits and recipe.softmaxed and type(value) in PLAIN and shape[:-2] == value.shape[:-2]):
        return None
    if len(shape) != recipe.query.dim() or shape[-1] != value.shape[-2]:
        return None
    return _attention(weights, value)


def _attention(weights: Scores, value: torch.Tensor) -> Maybe:
    """By whoever is fastest; None for the lines that were there."""
    query, key, scale, bias, mask, _ = weights.recipe
    key = key.transpose(-2, -1)
    if query.dim() == 3:
        query, key, value = (each.unsqueeze(1) for each in (query, key, value))
    arguments = (query, key, value, bias, mask, scale)
    way = choose(call_of(*arguments), RUNS)
    if way is Way.TWIN:
        return None
    weights.check()
    answer = RUNS[way](*arguments)
    return answer.squeeze(1) if len(weights.shape) == 3 else answer
