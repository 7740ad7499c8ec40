"""PIT804 accumulation-without-no-sync."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

ACCUMULATION = re.compile(
    r"accum|grad_acc|acc_steps|acc_iter|update_freq|update_every", re.IGNORECASE
)
WRAPPER = "torch.nn.parallel.DistributedDataParallel"
WRAPPED = re.compile(
    r"DistributedDataParallel|DDP\(|FSDP\(|FullyShardedDataParallel|[aA]ccelerator"
)
DONE_HERE = re.compile(r"require_backward_grad_sync|deepspeed")
DONE_ELSEWHERE = ("no_sync", "accumulate", "set_requires_gradient_sync")


@rule("PIT804", worth="small")
def accumulation_without_no_sync(source: Source) -> Iterator[Finding]:
    """Gradients are accumulated, yet sent around after every small batch.

    DistributedDataParallel averages gradients in each backward. While they add up for a later
    step this is wasted: run all but the last backward under `no_sync`. On one GPU, or where
    memory is short and the wrapper shards gradients, leave it.

    Bad:
        model = torch.nn.parallel.DistributedDataParallel(model)
        for number, batch in enumerate(train_loader):
            loss = model(batch).mean() / accumulation
            loss.backward()
            if (number + 1) % accumulation == 0:
                optimizer.step()
                optimizer.zero_grad()

    Good:
        model = torch.nn.parallel.DistributedDataParallel(model)
        for number, batch in enumerate(train_loader):
            last = (number + 1) % accumulation == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = model(batch).mean() / accumulation
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
    """
    if DONE_HERE.search(source.text) or source.project.calls_method(*DONE_ELSEWHERE):
        return
    for call in [*_plain(source), *_through_a_scaler(source)]:
        message = "Gradients are averaged over the ranks in every backward of an accumulation."
        yield source.finding(call, message, confidence="suspected", changes=("ddp",))


def _plain(source: Source) -> Iterator[ast.Call]:
    """Calls of backward in a loop that steps the optimizer only now and then."""
    backwards = source.method_calls("backward")
    if not backwards or not WRAPPED.search(source.text):
        return  # the wrapper belongs to another script
    for call in backwards:
        loop = source.enclosing_loop(call)
        if loop is None or _is_in_the_last(source, call) or _is_without(source, call):
            continue
        steps = [each for each in source.method_calls("step") if source.is_inside(each, loop)]
        if any(_is_in_the_last(source, each) for each in steps):
            yield call


def _through_a_scaler(source: Source) -> Iterator[ast.Call]:
    """``loss_scaler(loss, optimizer, update_grad=(i + 1) % accum_iter == 0)``, as in MAE."""
    if "update_grad" not in source.text or not source.project.mentions(WRAPPER):
        return
    for call in source.nodes(ast.Call):
        now = source.argument(call, "update_grad")
        if now is not None and _is_complete(now) and source.enclosing_loop(call):
            yield call


def _is_complete(test: ast.expr) -> bool:
    """Whether a test counts small batches: ``(i + 1) % accumulation == 0``."""
    modulo = any(isinstance(each, ast.Mod) for each in ast.walk(test))
    return modulo and bool(ACCUMULATION.search(ast.unparse(test)))


def _is_without(source: Source, node: ast.AST) -> bool:
    """Whether it runs where nothing is accumulated: the ``else`` of ``if ACCUMULATION > 1``."""
    block = source.enclosing(node, ast.If)
    while block is not None:
        within = any(source.is_inside(node, each) for each in block.orelse)
        if within and ACCUMULATION.search(source.text_of(block.test)):
            return True
        block = source.enclosing(block, ast.If)
    return False


def _is_in_the_last(source: Source, node: ast.AST) -> bool:
    """Whether it runs only when the accumulation is complete: ``if i % accumulation == 0``."""
    block = source.enclosing(node, ast.If)
    while block is not None:
        tests = [block.test, *(source.assigned(block.test) or [])]
        if any(map(_is_complete, tests)):
            return True
        block = source.enclosing(block, ast.If)
    return False
