"""Change `compile`."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pitstop.tune.change import change
from pitstop.tune.plan import Options

if TYPE_CHECKING:
    from pitstop.tune.script import Script

Function = Callable[..., Any]


def variants(cores: int) -> Iterator[Options]:  # noqa: ARG001 the same on any machine
    """The whole model; its repeated blocks; what is checkpointed, for models that break the first.

    Blocks compile faster and survive what cannot be compiled around them. Inside checkpoints a
    compiler sees no checkpoint at all, which some versions of torch cannot trace.
    """
    yield {"scope": "whole"}
    yield {"scope": "blocks"}
    yield {"scope": "inside-checkpoints"}


@change("rounding", toggles=True, variants=variants)
def compile(script: "Script") -> None:  # noqa: A001 what torch calls it
    """Compile the model: fused kernels, and fewer launches from Python.

    It pays where many small operations take the step, after the seconds or minutes that it costs
    first. Shapes that change make it compile again. While numbers are compared, random numbers
    come from where they come from without it.
    """
    torch = script.torch
    own = torch.compile
    backend = script.options.get("backend", "inductor")
    _configure(script)

    def compiled(function: Function) -> Function:
        result: Function = own(function, backend=backend)
        return result

    def by_script(original: Function, *given: Any, **named: Any) -> Any:
        script.decline("the script compiles by itself")
        return original(*given, **named)

    SCOPES[str(script.options.get("scope", "whole"))](script, compiled)
    script.patch(torch, "compile", by_script)


def _configure(script: "Script") -> None:
    """A failure must be one, and random numbers comparable."""
    import torch._dynamo.config as dynamo  # noqa: PLC0415 only where it is wanted
    import torch._inductor.config as inductor  # noqa: PLC0415 likewise

    before = dynamo.suppress_errors, inductor.fallback_random

    def set_to(suppress_errors: bool, fallback_random: bool) -> None:
        dynamo.suppress_errors, inductor.fallback_random = suppress_errors, fallback_random

    script.switch(lambda: set_to(False, script.seeded or before[1]), lambda: set_to(*before))


def _whole(script: "Script", compiled: Callable[[Function], Function]) -> None:
    script.needs("model with weights was called")
    script.on_model(lambda module: _compile_module(script, compiled, module))


def _blocks(script: "Script", compiled: Callable[[Function], Function]) -> None:
    from pitstop.tune.models import repeated_blocks  # noqa: PLC0415 needs torch

    script.needs("model has blocks that repeat")

    def set_up(module: Any) -> None:
        for block in repeated_blocks(module):
            _compile_module(script, compiled, block)

    script.on_model(set_up)


def _compile_module(
    script: "Script", compiled: Callable[[Function], Function], module: Any
) -> None:
    fast = compiled(module._call_impl)
    script.wrap(module, lambda _call, _module, *given, **named: fast(*given, **named))
    script.applied()


def _inside_checkpoints(script: "Script", compiled: Callable[[Function], Function]) -> None:
    checkpoints = script.torch.utils.checkpoint
    known: WeakKeyDictionary[Any, dict[str, Function]] = WeakKeyDictionary()
    script.needs("function is checkpointed")

    def fast(function: Function) -> Function:
        owner = getattr(function, "__self__", function)
        methods = known.setdefault(owner, {})
        name = getattr(function, "__name__", "")
        if name not in methods:
            methods[name] = compiled(function)
            script.applied()
        return methods[name]

    def around(original: Function, function: Function, *given: Any, **named: Any) -> Any:
        return original(fast(function), *given, **{**named, "use_reentrant": False})

    script.patch(checkpoints, "checkpoint", around)


SCOPES: dict[str, Callable[["Script", Callable[[Function], Function]], None]] = {
    "whole": _whole,
    "blocks": _blocks,
    "inside-checkpoints": _inside_checkpoints,
}
