"""PIT707 guard-syncs-every-step."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.around import tensor_calls, tests_around
from pitstop.scan.hot import place_of
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source

CHECKS = ("isnan", "isinf", "isfinite")
PASSES_ON = ("any", "all", "sum", "detach", "to", "float", "int", "max")
# Behind another check, or asked for by the user; and what is done once, whoever calls it.
SELDOM = re.compile(r"isnan|isinf|isfinite|safe|check|strict|verify|sanity", re.IGNORECASE)
ONCE = re.compile(r"(?:^|_)(?:cache|merge|load|init)", re.IGNORECASE)


@rule("PIT707", worth="small")
def guard_syncs_every_step(source: Source) -> Iterator[Finding]:
    """Every step waits for the GPU to learn whether a tensor is finite.

    Python stops until the number is there, and the check sees only what is poisoned already.
    Count on the GPU and look every hundred steps; a GradScaler skips bad steps by itself. To
    find the first bad module, use a hook and take it out again.

    Bad:
        for clip in train_loader:
            loss = model(clip).mean()
            if torch.isnan(loss):
                raise RuntimeError("NaN")
            loss.backward()

    Good:
        for step, clip in enumerate(train_loader):
            loss = model(clip).mean()
            if step % 100 == 0 and torch.isnan(loss):
                raise RuntimeError("NaN")
            loss.backward()
    """
    for call in source.calls("torch.autograd.set_detect_anomaly"):
        if source.literal(source.argument(call, "mode", 0)) is True:
            message = "Anomaly detection reads a number from the GPU after every backward function."
            yield source.finding(call, message, confidence="suspected")
    seen: set[ast.stmt] = set()
    for call, _ in tensor_calls(source, *CHECKS):
        hot, statement = source.hot(call), source.statement(call)
        if hot is None or hot.kind != "step" or hot.guarded or statement in seen:
            continue
        if not _is_tensor_check(source, call) or place_of(source, call).evaluation:
            continue
        if _is_read(source, call) and not is_rare(source, call, hot) and not _is_once(source, call):
            seen.add(statement)
            message = f"Every step waits here to learn whether it is finite ({hot.reason})."
            yield source.finding(call, message, confidence="suspected")


def _is_tensor_check(source: Source, call: ast.Call) -> bool:
    """``torch.isnan(x)`` or ``x.isnan()``; those of math and numpy look at numbers."""
    return source.name_of(call.func).startswith("torch.") or not call.args


def _is_once(source: Source, call: ast.Call) -> bool:
    function = source.enclosing_function(call)
    if function is not None and ONCE.search(function.name):
        return True
    return any(SELDOM.search(test) for test in tests_around(source, call))


def _is_read(source: Source, call: ast.Call) -> bool:
    """Whether Python decides on the result, at once or through one name."""
    child: ast.AST = call
    above = source.parent(call)
    while above is not None and not _ends(above, child):
        child, above = above, source.parent(above)
    match above:
        case ast.If(test=test) | ast.Assert(test=test) | ast.IfExp(test=test):
            return test is child
        case ast.Call(func=ast.Name("bool")) | ast.Attribute(attr="item"):
            return True
        case ast.Assign(targets=[ast.Name() as name]):
            return _is_decided_on(source, name)
    return False


def _ends(above: ast.AST, child: ast.AST) -> bool:
    """Whether the way up from a check ends: someone reads it, or it becomes something else."""
    match above:
        case ast.stmt() | ast.IfExp() | ast.Subscript() | ast.Call(func=ast.Name("bool")):
            return True
        case ast.BoolOp(ast.And(), [first, *_]):
            return first is not child  # `step % 100 == 0 and isnan(x)`, `check and isnan(x)`
    return isinstance(above, ast.Attribute) and above.attr not in PASSES_ON


def _is_decided_on(source: Source, name: ast.Name) -> bool:
    """Whether a name of the same function is read further down: ``bad.item()``, ``if bad:``."""
    function = source.enclosing_function(name)
    for use in source.nodes(ast.Name):
        later = use.id == name.id and use.lineno > name.lineno
        if later and source.enclosing_function(use) is function:
            above = source.parent(use)
            if isinstance(above, ast.If) or getattr(above, "attr", "") == "item":
                return True
    return False
