"""Change `fp16` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_after, insert_before, replace, wrap
from pitstop.scan.source import LOOPS, Source
from pitstop.tune.patch.autocasting import autocast, learns
from pitstop.tune.patch.regions import Region, learning_regions
from pitstop.tune.patch.sites import Left, Sites, in_file, quoted, torch_name
from pitstop.tune.plan import Options

FIRST_SCALE = "2.0**10"  # torch's own overflows in the first steps, which are then skipped
BY_HAND = "write autocast in float16 and a torch.amp.GradScaler by hand"
CLIPPING = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


def fp16(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Autocast, and a gradient scaler for the one optimizer that steps after each backward pass."""
    if not learns(sites):
        yield from autocast(sites, "float16")
        return
    edits: list[Edit] = []
    for region in learning_regions(sites):
        found = region if isinstance(region, Left) else _scaled(sites, region)
        if isinstance(found, Left):
            yield Left(f"{found.reason}: {BY_HAND}")
            return
        edits += found
    lines = list(autocast(sites, "float16"))
    yield from lines
    if any(isinstance(each, Edit) for each in lines):
        yield from dict.fromkeys(edits)


def _scaled(sites: Sites, region: Region) -> list[Edit] | Left:
    source, call = region.source, region.call
    where = f"{source.path}:{call.lineno}"
    steps = _steps(region)
    if not region.statements or call.func.attr != "backward" or call.args:  # type: ignore[attr-defined]
        return Left(f"the backward pass of {where} is not that of a loss with a name")
    if len(steps) != 1 or source.calls("torch.amp.GradScaler", "torch.cuda.amp.GradScaler"):
        return Left(f"not one optimizer alone steps after the backward pass of {where}")
    step = steps[0]
    optimizer = ast.unparse(step.func.value)  # type: ignore[attr-defined]
    scaler = "self.scaler" if optimizer.startswith("self.") else "scaler"
    made = _made(sites, region, scaler, optimizer)
    if isinstance(made, Left):
        return made
    loss = call.func.value  # type: ignore[attr-defined]
    edits = [*made, *wrap(source, loss, f"{scaler}.scale(", ")")]
    statement = source.statement(step)
    edits += [replace(source, step, f"{scaler}.step({optimizer})")]
    edits += [insert_after(source, statement, f"{scaler}.update()")]
    for clip in source.calls(*CLIPPING):
        if call.lineno < clip.lineno <= step.lineno:
            line = f"{scaler}.unscale_({optimizer})"
            edits.append(insert_before(source, source.statement(clip), line))
    return list(in_file(source, edits))


def _steps(region: Region) -> list[ast.Call]:
    """The steps of optimizers behind a backward pass, up to the next one."""
    source, call = region.source, region.call
    function = source.enclosing_function(call)
    below = [
        each
        for each in source.method_calls("step", "backward")
        if source.enclosing_function(each) is function and each.lineno > call.lineno
    ]
    found = []
    for each in sorted(below, key=lambda one: one.lineno):
        assert isinstance(each.func, ast.Attribute)
        if each.func.attr == "backward":
            break
        if "opt" in ast.unparse(each.func.value).lower() and not each.args:
            found.append(each)
    return found


def _made(sites: Sites, region: Region, scaler: str, optimizer: str) -> list[Edit] | Left:
    """The scaler: before the loop of a function, or behind the optimizer of an object."""
    source = region.source
    torch, imports = torch_name(source)
    text = f"{scaler} = {torch}.amp.GradScaler({quoted(source, sites.device)}, "
    text += f"init_scale={FIRST_SCALE})"
    if scaler != "scaler":
        owner = source.enclosing_class(region.call)
        found = [
            each
            for each in source.nodes(ast.Assign)
            if ast.unparse(each.targets[0]) == optimizer and source.enclosing_class(each) is owner
        ]
        if len(found) != 1:
            return Left(f"{optimizer} is not built in the class that steps it")
        return [*imports, insert_after(source, found[0], text)]
    loop = _outermost_loop(source, region.call)
    if loop is None:
        return Left(f"{source.path}:{region.call.lineno} has no loop that a scaler could outlive")
    return [*imports, insert_before(source, loop, text)]


def _outermost_loop(source: Source, node: ast.AST) -> ast.stmt | None:
    found = None
    function = source.enclosing_function(node)
    above = source.parent(node)
    while above is not None and above is not function:
        found = above if isinstance(above, LOOPS) else found
        above = source.parent(above)
    return found
