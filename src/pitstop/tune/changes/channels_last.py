"""Change `channels-last`."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.inside.kernels import METHODS
from pitstop.tune.ruled_out import no_convolution

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

CONVOLUTIONS = ("Conv2d", "Conv3d", "ConvTranspose2d", "ConvTranspose3d")


@change("rounding", toggles=True, when=When(useless=no_convolution, usual=0.05))
def channels_last(script: "Script") -> None:
    """Keep the channels of pictures and clips side by side in memory, as convolutions want them.

    Weights of 2-D and 3-D convolutions and the inputs of the model are laid out anew. It pays with
    tensor cores in half precision or TF32; a layer in between that knows only the other layout,
    such as GroupNorm, copies back and forth and can make it slower. Autograd functions that hand
    addresses to kernels of their own get contiguous tensors as before. Dropout and noise like a
    picture's fall elsewhere.
    """
    torch = script.torch
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    models: list[Any] = []
    met: set[int] = set()  # weights
    theirs: set[int] = set()  # those that the script has laid out so itself: they stay, on or off
    homes = _Homes()
    script.needs("2-D or 3-D convolution that is not laid out so already")

    def lay_out(channels_are_last: bool) -> None:
        for weight in _weights(models, script.torch):
            if id(weight) in theirs:
                continue
            layout = formats[weight.dim()] if channels_are_last else torch.contiguous_format
            homes.move(weight, layout, stay=script.toggled)
            for tensor, put in _beside(weight, script.optimizers):
                put(tensor.contiguous(memory_format=layout))

    def set_up(module: Any) -> None:
        new = [each for each in _weights([module], script.torch) if id(each) not in met]
        met.update(map(id, new))
        last = [each for each in new if each.is_contiguous(memory_format=formats[each.dim()])]
        known = [each for each in last if not each.is_contiguous()]  # of one pixel, it is both
        theirs.update(map(id, known))
        if len(new) > (len(last) if known else 0):
            models.append(module)
            script.applied(len(new) - len(known))
            lay_out(script.on)

    def around(call: Callable[..., Any], _: Any, *given: Any, **named: Any) -> Any:
        if not models:
            return call(*given, **named)
        return call(
            *[_converted(each, formats, torch) for each in given],
            **{name: _converted(each, formats, torch) for name, each in named.items()},
        )

    script.on_model(set_up)
    script.around_model(around)
    _watch_draws(script, formats)
    _keep_rows(script)
    script.switch(lambda: lay_out(True), lambda: lay_out(False))


class _Homes:
    """Where weights lie in each layout. A captured graph knows them by their addresses."""

    def __init__(self) -> None:
        self._left: dict[int, Any] = {}  # by weight: the place that it has left

    def move(self, weight: Any, layout: Any, stay: bool) -> None:
        """Lay it out so. Where both places are to stay, it goes back to the one it has left."""
        before = weight.data
        if before.is_contiguous(memory_format=layout):
            return
        home = self._left.get(id(weight))
        if home is not None and _kind(home) == _kind(before):
            weight.data = home.copy_(before)
        else:
            weight.data = before.contiguous(memory_format=layout)
        if stay:
            self._left[id(weight)] = before


def _kind(tensor: Any) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def _watch_draws(script: "Script", formats: dict[int, Any]) -> None:
    """Whether random numbers fall elsewhere: they are drawn in the order of memory."""
    torch = script.torch

    def look(like: Any) -> None:
        if isinstance(like, torch.Tensor) and like.dim() in formats and not like.is_contiguous():
            script.draws_otherwise()

    def drop(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        said = {**dict(zip(("input", "p", "training"), given, strict=False)), **named}
        if said.get("p", True) and said.get("training", True):
            look(said.get("input"))
        return original(*given, **named)

    def draw(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        look(given[0] if given else named.get("input"))
        return original(*given, **named)

    script.patch(torch.nn.functional, "dropout", drop)
    for name in ("randn_like", "rand_like", "randint_like"):
        script.patch(torch, name, draw)


def _keep_rows(script: "Script") -> None:
    """Contiguous tensors for functions that launch kernels of their own, there and back."""
    torch = script.torch

    def rows(value: Any) -> Any:
        dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
        return value.contiguous() if dense else value

    def row_by_row(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return original(*map(rows, given), **named)

    def define(function: Any) -> None:
        for name in METHODS:
            if name in vars(function):
                script.patch(function, name, row_by_row)

    script.on_kernel(define)


def _weights(models: list[Any], torch: Any) -> Iterator[Any]:
    kinds = tuple(getattr(torch.nn, name) for name in CONVOLUTIONS)
    for model in models:
        for module in model.modules():
            if isinstance(module, kinds):
                yield from (each for each in _own(module) if each.dim() in {4, 5})


def _own(module: Any) -> Iterator[Any]:
    """Its parameters; of a parametrized one those that its weight is computed from.

    To ask for that weight would compute it: spectral_norm goes on by an iteration each time.
    """
    yield from module.parameters(recurse=False)
    if hasattr(module, "parametrizations"):
        yield from module.parametrizations.parameters()


def _beside(weight: Any, optimizers: list[Any]) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """The gradient and the optimizer's averages of a weight: they should have its layout."""
    if weight.grad is not None:
        yield weight.grad, partial(setattr, weight, "grad")
    for optimizer in optimizers:
        state = optimizer.state.get(weight, {})
        for name, tensor in list(state.items()):
            if getattr(tensor, "shape", None) == weight.shape:
                yield tensor, partial(state.__setitem__, name)


def _converted(value: Any, formats: dict[int, Any], torch: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() in formats and value.is_floating_point():
        return value.contiguous(memory_format=formats[value.dim()])
    if type(value) in {list, tuple}:
        return type(value)(_converted(each, formats, torch) for each in value)
    if type(value) is dict:
        return {name: _converted(each, formats, torch) for name, each in value.items()}
    return value
