"""PIT616 parameters-updated-one-by-one."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source

EVERY = {"parameters", "named_parameters", "buffers", "state_dict", "items", "values"}
OF_A_NETWORK = re.compile(r"\.(?:named_)?parameters\(|\.state_dict\(|params\b|msd\b|shadow")
AVERAGE = re.compile(r"EMA|Ema|(?:^|[._])ema|[Mm]oving_?[Aa]verage|[Aa]veraged")
IN_PLACE = {
    *("mul_", "add_", "copy_", "lerp_", "sub_", "div_", "addcmul_", "clamp_", "nan_to_num_"),
    "addcdiv_",
}
FUNCTIONS = ("torch.nan_to_num", "torch.lerp", "torch.clamp")


@rule("PIT616", worth="small")
def parameters_updated_one_by_one(source: Source) -> Iterator[Finding]:
    """Every step goes through the parameters in Python, with a kernel or two for each.

    A network has hundreds of parameters, most of them small: the launches cost milliseconds. The
    functions `torch._foreach_*` take whole lists, as torch's own optimizers do. With a
    `multi_avg_fn`, `torch.optim.swa_utils.AveragedModel` averages weights that way.

    Bad:
        for batch in train_loader:
            model(batch).mean().backward()
            optimizer.step()
            for average, weight in zip(ema.parameters(), model.parameters()):
                average.data.mul_(0.999).add_(weight.data, alpha=0.001)

    Good:
        weights, averages = list(model.parameters()), list(ema.parameters())
        for batch in train_loader:
            model(batch).mean().backward()
            optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(averages, weights, 0.001)
    """
    for loop in source.nodes(ast.For):
        if not OF_A_NETWORK.search(source.text_of(loop.iter)) or "_foreach_" in source.text:
            continue
        change = _change(source, loop)
        reason = _reason(source, loop) if change is not None else ""
        if reason:
            message = f"Parameters are updated one by one, with kernels for each ({reason})."
            yield source.finding(loop.iter, message, confidence="suspected")


def _change(source: Source, loop: ast.For) -> ast.AST | None:
    """What a round does to its parameter on the GPU; nothing where it is only looked at."""
    bound = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    for call in (*source.method_calls(*IN_PLACE), *source.calls(*FUNCTIONS)):
        used = {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
        if used & bound and source.enclosing_loop(call) is loop:
            return call
    for assign in source.nodes(ast.AugAssign):
        target = assign.target.id if isinstance(assign.target, ast.Name) else ""
        if target in bound and source.enclosing_loop(assign) is loop:
            return assign
    return None


def _reason(source: Source, loop: ast.For) -> str:
    """Why it runs in every step: the project says so, or the name of a moving average."""
    hot = source.hot(loop)
    if hot is not None:
        often = hot.kind == "step" and not hot.guarded and not is_rare(source, loop, hot)
        return hot.reason if often else ""
    function, owner = source.enclosing_function(loop), source.enclosing_class(loop)
    if not source.project.calls_method("backward", "manual_backward"):
        return ""  # nothing is trained here
    if function is None or not function.name.startswith(("update", "step", "__call__")):
        return ""
    if owner is None and not _is_called(source, function.name):
        return ""
    name = f"{owner.name}.{function.name}" if owner else function.name
    return f"{name} is called in every step, by its name" if AVERAGE.search(name) else ""


def _is_called(source: Source, name: str) -> bool:
    """Whether anybody calls a function of this name: libraries come with more than is used."""
    here = source.calls(name) or source.method_calls(name)
    return bool(here) or source.project.is_called(name, source.path)
