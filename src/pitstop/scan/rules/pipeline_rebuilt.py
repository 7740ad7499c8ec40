"""PIT504 pipeline-rebuilt."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.branches import branches_around, depends_on
from pitstop.scan.pretrained import (
    LOADERS,
    class_of,
    has_its_parts,
    is_dropped_before,
    is_kept,
    loads_of_networks,
)
from pitstop.scan.source import Loop, Source


@rule("PIT504")
def pipeline_rebuilt(source: Source) -> Iterator[Finding]:
    """Weights are read from disk again in a loop, or at each validation.

    Loading takes seconds, and while it lasts the copy stands beside the one already in memory.
    Build the network once and keep it; a pipeline takes the parts that are there already as
    arguments, and the part `shared_pipelines` makes one for validation of what trains. A network
    that changes from round to round must be loaded each time.

    Bad:
        from diffusers import FluxPipeline

        for batch in train_loader:
            pipeline = FluxPipeline.from_pretrained("flux", transformer=transformer)
            pipeline(batch["caption"])

    Good:
        from diffusers import FluxPipeline

        pipeline = FluxPipeline.from_pretrained("flux", transformer=transformer)
        for batch in train_loader:
            pipeline(batch["caption"])
    """
    for call in [*loads_of_networks(source), *source.calls(*LOADERS)]:
        if is_kept(source, call) or is_dropped_before(source, call) or has_its_parts(source, call):
            continue
        hot = source.hot(call)
        loop = source.enclosing_loop(call)
        if loop is not None and not _varies(source, call, loop):
            reason = f"in the loop at line {loop.lineno}"
        elif hot is not None and hot.kind != "sample" and loop is None:
            reason = hot.reason
        else:
            continue
        name = class_of(source, call) or source.name_of(call.func)
        message = f"`{name}` is loaded from disk again and again ({reason})."
        yield source.finding(call, message, per="validation" if hot and hot.guarded else "step")


def _varies(source: Source, call: ast.Call, loop: Loop) -> bool:
    """Whether an argument, or the choice to load, depends on what the loop binds."""
    tests = [each for each, _ in branches_around(source, call) if source.is_inside(each, loop)]
    chosen = [each.test for each in tests if isinstance(each, ast.If) and not _is_timed(each)]
    taken = [each.value for each in loop.body if isinstance(each, ast.Assign)]
    popped = any(".pop(" in ast.unparse(each) for each in taken)
    return popped or depends_on(loop, [*call.args, *call.keywords, *chosen])


def _is_timed(block: ast.If) -> bool:
    """``if epoch % 10 == 0`` says when to load, and not what."""
    return any(isinstance(each, ast.Mod) for each in ast.walk(block.test))
