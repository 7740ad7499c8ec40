"""PIT705 scheduler-stepped-per-microbatch."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.around import tests_around
from pitstop.scan.source import Source

SCHEDULER = re.compile(r"(?:^|_)(?:lr_)?sched(?:uler)?s?(?:_|$)", re.IGNORECASE)
ACCUMULATION = re.compile(r"accum|sync_gradients", re.IGNORECASE)
COUNTED = re.compile(r"accum|sync_gradients|%", re.IGNORECASE)


@rule("PIT705")
def scheduler_stepped_per_microbatch(source: Source) -> Iterator[Finding]:
    """The learning rate moves with every micro-batch, the weights only every few of them.

    With gradients accumulated over n batches the schedule runs n times too fast: it is at its
    floor early, and the rest of the run learns next to nothing. A cosine goes up again instead.
    Step it where the optimizer really steps. A scheduler that Accelerate has prepared waits by
    itself, and one that was built for n times the steps is right as well.

    Bad:
        for i, clip in enumerate(train_loader):
            (model(clip).mean() / accumulation_steps).backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
            scheduler.step()

    Good:
        for i, clip in enumerate(train_loader):
            (model(clip).mean() / accumulation_steps).backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
    """
    if "sched" not in source.text or "backward(" not in source.text:
        return
    for call in source.method_calls("step"):
        if not _is_learning_rate(source, call) or _is_allowed_for(source):
            continue
        hot = source.hot(call)
        if hot is None or hot.kind != "step" or hot.guarded:
            continue
        if any(COUNTED.search(test) for test in tests_around(source, call)):
            continue
        if how := _accumulates_around(source, call):
            message = f"The schedule moves with every micro-batch ({hot.reason}), but {how}."
            yield source.finding(call, message, severity="error")


def _is_learning_rate(source: Source, call: ast.Call) -> bool:
    """``scheduler.step()`` as a statement; that of a diffusion sampler has arguments."""
    assert isinstance(call.func, ast.Attribute)
    owner = source.text_of(call.func.value).rpartition(".")[2]
    alone = isinstance(source.parent(call), ast.Expr) and not call.args and not call.keywords
    return alone and bool(SCHEDULER.search(owner))


def _is_allowed_for(source: Source) -> bool:
    """Whether Accelerate steps the scheduler, or it was built with the accumulation counted in."""
    for prepare in source.method_calls("prepare", "prepare_scheduler"):
        names = " ".join(source.text_of(each) for each in prepare.args)
        if source.open_ended(prepare) or "sched" in names or not names:
            return True
    made = [each for each in source.nodes(ast.Assign) if isinstance(each.value, ast.Call)]
    built = [each for each in made if "sched" in source.text_of(each.targets[0])]
    return any(ACCUMULATION.search(source.text_of(each.value)) for each in built)


def _accumulates_around(source: Source, call: ast.Call) -> str:
    """How gradients are accumulated in the code around, in words; empty when they are not."""
    block = source.enclosing(call, ast.With)
    while block is not None:
        if any(".accumulate(" in source.text_of(item.context_expr) for item in block.items):
            return "inside `accumulate` the weights move only when gradients are synchronised"
        block = source.enclosing(block, ast.With)
    scope = source.enclosing_loop(call) or source.enclosing_function(call) or source.tree
    inside = [each for each in source.method_calls("step") if source.is_inside(each, scope)]
    steps = [each for each in inside if "optim" in source.text_of(each).lower()]
    if steps and all(_waits(source, each) for each in steps):
        return "" if _counts_batches(source, scope) else "the optimizer steps only every few"
    backward = [each for each in source.method_calls("backward") if source.is_inside(each, scope)]
    alone = isinstance(scope, ast.FunctionDef) and not steps
    if alone and any(ACCUMULATION.search(source.text_of(each)) for each in backward):
        return "here gradients are only accumulated"
    return ""


def _counts_batches(source: Source, scope: ast.AST) -> bool:
    """Whether a step is a batch to the project: then so it is to the schedule."""
    for each in source.nodes(ast.AugAssign):
        if source.is_inside(each, scope) and "step" in source.text_of(each.target):
            return not _waits(source, each)
    return False


def _waits(source: Source, step: ast.AST) -> bool:
    counted = COUNTED if source.project.accumulates else ACCUMULATION
    return any(counted.search(test) for test in tests_around(source, step))
