"""Change `compile`."""

from collections.abc import Callable, Iterator
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pitstop.tune.change import Facts, When, change
from pitstop.tune.compile_cost import blocks, never_pays, no_compiler, seconds
from pitstop.tune.plan import Options
from pitstop.tune.ranges import OneOf
from pitstop.tune.ruled_out import compiles_itself, no_checkpoint, one_shape, waits_for_launches

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

Function = Callable[..., Any]
Compiled = Callable[[Function], Function]

MOST_GRAPHS = 128  # of one function: deep networks have so many blocks; torch gives up at 8
LIMIT = "cache_size_limit"  # of graphs; newer versions call it otherwise, and know this name too
CAPTURED = "reduce-overhead"  # torch's mode in which launches are captured as CUDA graphs
GIVEN = ("backend", "mode", "dynamic")  # options that are torch's own
CHECKPOINTS = {"checkpoint", "_gradient_checkpointing_func"}  # torch's name, and the libraries'
RANGES = {
    "scope": OneOf(("whole", "blocks", "inside-checkpoints")),
    "backend": OneOf(("inductor", "cudagraphs", "aot_eager", "eager")),
    "mode": OneOf(("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")),
    "dynamic": OneOf((True, False)),
}


def variants(facts: Facts) -> Iterator[Options]:
    """The repeated blocks, where there are any; the whole model; what is checkpointed.

    A compiler looks at one block of each kind: that takes a fraction of the time, survives what
    cannot be compiled around them, and leaves little to gain. They share their code, so torch takes
    blocks of several widths for shapes that vary, and compiles them for any: minutes for attention
    in windows, and of no use where all batches have one shape. Inside checkpoints a compiler sees
    no checkpoint at all, which some versions of torch cannot trace. Where a GPU waits for launches,
    what is compiled is captured as CUDA graphs as well, which launch at once: the whole model in
    training, where a backward pass may be open while another block runs.
    """
    seen = facts.evidence
    fixed: Options = {"dynamic": False} if one_shape(seen) else {}
    options: dict[str, Options] = {"blocks": fixed, "whole": {}}
    scopes = ["blocks", "whole"] if blocks(seen) or not seen.calls else ["whole"]
    if facts.device == "cuda" and waits_for_launches(seen):
        captured = scopes if facts.work == "inference" else ["whole"]
        yield from ({"scope": scope, **options[scope], "mode": CAPTURED} for scope in captured)
    yield from ({"scope": scope, **options[scope]} for scope in scopes)
    if not no_checkpoint(seen):
        yield {"scope": "inside-checkpoints"}


@change(
    "rounding",
    toggles=True,
    variants=variants,
    ranges=RANGES,
    when=When(
        useless=lambda seen: compiles_itself(seen) or never_pays(seen),
        impossible=no_compiler,
        late=True,
        takes_s=seconds,
        beside=("channels-last",),
    ),
)
def compile(script: "Script") -> None:  # noqa: A001 what torch calls it
    """Compile the model: fused kernels, and fewer launches from Python.

    It pays where many small operations take the step, after the seconds or minutes that it costs
    first: blocks that repeat are compiled once for each class and shape. Shapes that change make it
    compile again. Where launches are captured, results are copies, which the script may keep. While
    numbers are compared, random numbers come from where they come from without it; and what a
    training checks before its first step is not compiled in trials, which would take as long again
    and make no step faster.
    """
    torch = script.torch
    own = torch.compile
    given = {name: script.options[name] for name in GIVEN if name in script.options}
    _configure(script)

    def compiled(function: Function) -> Function:
        result: Function = own(function, **given)
        return result

    def by_script(original: Function, *given: Any, **named: Any) -> Any:
        script.decline("the script compiles by itself")
        return original(*given, **named)

    if script.options.get("mode") == CAPTURED:
        _keep_results(script)
    SCOPES[str(script.options.get("scope", "whole"))](script, compiled)
    script.patch(torch, "compile", by_script)


def _configure(script: "Script") -> None:
    """A failure must be one, no block may be left out, and random numbers must be comparable."""
    from pitstop import internals  # noqa: PLC0415 needs torch

    dynamo, inductor = internals.dynamo_config(), internals.inductor_config()

    before = dynamo.suppress_errors, getattr(dynamo, LIMIT), inductor.fallback_random
    wanted = False, max(MOST_GRAPHS, before[1]), script.seeded or before[2]

    def set_to(suppress_errors: bool, most_graphs: int, fallback_random: bool) -> None:
        dynamo.suppress_errors, inductor.fallback_random = suppress_errors, fallback_random
        setattr(dynamo, LIMIT, most_graphs)

    script.switch(lambda: set_to(*wanted), lambda: set_to(*before))


def _whole(script: "Script", compiled: Compiled) -> None:
    script.needs("model with weights was called")
    _compile_modules(script, compiled, lambda module: [module])


def _blocks(script: "Script", compiled: Compiled) -> None:
    from pitstop.parts.blocks import repeated_blocks  # noqa: PLC0415 needs torch

    script.needs("model has blocks that repeat")
    _compile_modules(script, compiled, repeated_blocks)


def _compile_modules(
    script: "Script", compiled: Compiled, parts: Callable[[Any], list[Any]]
) -> None:
    _keep_order(script)
    captures = script.options.get("mode") == CAPTURED

    def compile_module(module: Any) -> None:
        @cache  # not before it is switched on: Pitstop's own hooks stay for whatever is compiled
        def fast() -> Function:
            return compiled(_traced(module))

        def either(call: Function, _module: Any, *given: Any, **named: Any) -> Any:
            if captures and script.torch.cuda.is_current_stream_capturing():
                script.decline("its launches are captured already")
                return call(*given, **named)
            return (call if script.rehearses() else fast())(*given, **named)

        script.wrap(module, either)
        script.applied()

    def set_up(model: Any) -> None:
        if _speaks_of_checkpoints(model):
            _fix_floats(script)
        for module in parts(model):
            compile_module(module)

    script.on_model(set_up)


def _keep_results(script: "Script") -> None:
    """Copies of what a captured model returns: its next call writes over the results of this one.

    A call that nothing is learned from begins a new round, so that blocks may hand on results
    within it; not in a training, where an open backward pass may need those of a call before.
    """
    from pitstop import internals  # noqa: PLC0415 needs torch

    torch = script.torch
    learned = False

    def copied(value: Any) -> Any:
        return value.clone() if isinstance(value, torch.Tensor) else value

    def around(call: Function, _: Any, *given: Any, **named: Any) -> Any:
        nonlocal learned
        if torch.is_grad_enabled():
            learned = True
            return call(*given, **named)
        if not learned:
            torch.compiler.cudagraph_mark_step_begin()
        return internals.tree_map(copied, call(*given, **named))

    script.around_model(around)


def _traced(module: Any) -> Function:
    """The call of a module, in a frame that Dynamo looks at.

    It passes over the frames of torch's own classes, and so over all of a ``Sequential``: what is
    handed to ``torch.compile`` as a module gets such a frame, what ``Module.compile`` compiles does
    not.
    """
    from pitstop import internals  # noqa: PLC0415 needs torch

    call: Function = internals.call_of(module)
    own = isinstance(module.forward, MethodType) and internals.is_passed_over(module.forward)
    return internals.inlined(call) if own else call


def _speaks_of_checkpoints(model: Any) -> bool:
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    methods = (each for kind in kinds for each in vars(kind).values() if hasattr(each, "__code__"))
    return any(not CHECKPOINTS.isdisjoint(each.__code__.co_names) for each in methods)


def _fix_floats(script: "Script") -> None:
    """Compile a block anew for each value of a number such as its rate of drop path.

    torch (2.11 and 2.13 at least) makes a variable of a number that differs between blocks, and
    breaks where two checkpoints of one block read it: ``lift_tracked_freevar_to_input``.
    """
    from pitstop import internals  # noqa: PLC0415 needs torch

    dynamo = internals.dynamo_config()

    before = dynamo.specialize_float

    def set_to(fixed: bool) -> None:
        dynamo.specialize_float = fixed

    script.switch(lambda: set_to(True), lambda: set_to(before))


def _keep_order(script: "Script") -> None:
    """Let torch look for a graph from the oldest on, not from the one it used last.

    Else a checkpoint may be recomputed by another graph than it was computed by, which keeps
    other tensors. torch's own message about that asks for this.
    """
    from pitstop import internals  # noqa: PLC0415 needs torch

    frames = internals.dynamo_frames
    if hasattr(frames, "_set_lru_cache"):
        script.switch(lambda: frames._set_lru_cache(False), lambda: frames._set_lru_cache(True))


def _inside_checkpoints(script: "Script", compiled: Compiled) -> None:
    script.needs("function is checkpointed")
    _keep_order(script)
    known: WeakKeyDictionary[Any, dict[str, Function]] = WeakKeyDictionary()

    def fast(function: Function) -> Function:
        methods = known.setdefault(getattr(function, "__self__", function), {})
        name = getattr(function, "__name__", "")
        if name not in methods:
            methods[name] = compiled(function)
            script.applied()
        return methods[name]

    def around(original: Function, function: Function, *given: Any, **named: Any) -> Any:
        return original(fast(function), *given, **{**named, "use_reentrant": False})

    script.patch(script.torch.utils.checkpoint, "checkpoint", around)


SCOPES: dict[str, Callable[["Script", Compiled], None]] = {
    "whole": _whole,
    "blocks": _blocks,
    "inside-checkpoints": _inside_checkpoints,
}
