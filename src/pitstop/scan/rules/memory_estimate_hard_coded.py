"""PIT507 memory-estimate-hard-coded."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.scopes import scope_of
from pitstop.scan.source import Source

# Memory that depends on the batch and the resolution, written down as a number.
WORDS = ("activation", "overhead", "workspace", "intermediate")
GUESSED = re.compile(rf"(?:^|_)(?:{'|'.join(WORDS)})s?(?:_|$)")
MEMORY = re.compile(
    r"(?:^|_)(?:[gm]i?b|bytes|mem|memory|vram|size_[gm]b|gpu_mem)(?:_|$)", re.IGNORECASE
)


@rule("PIT507", worth="small")
def memory_estimate_hard_coded(source: Source) -> Iterator[Finding]:
    """Memory of activations is a number somebody once wrote down.

    Activations grow with batch, resolution, frames and precision, and shrink with checkpointing:
    a constant is right for one run. `pitstop memory SCRIPT` and the part `memory_estimate` tell
    the peak from shapes, before it is run; or measure that of one step.

    Bad:
        def memory_of(model):
            weights_gb = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**30
            activations_gb = 10
            return 4 * weights_gb + activations_gb

    Good:
        def memory_of(model, batch):
            torch.cuda.reset_peak_memory_stats()
            model(batch).mean().backward()
            return torch.cuda.max_memory_allocated() / 2**30
    """
    if not any(word in source.text for word in WORDS):
        return
    for assign in source.nodes(ast.Assign):
        target = assign.targets[0]
        if not isinstance(target, ast.Name) or not GUESSED.search(target.id):
            continue
        named = MEMORY.search(target.id) and _is_number(assign.value)
        if named and _is_added(source, target):
            message = f"`{target.id}` is a fixed number in an estimate of memory."
            yield source.finding(assign, message, cure="`pitstop memory SCRIPT`")


def _is_number(value: ast.expr) -> bool:
    """Whether it is made of numbers alone, and not zero: ``10 * 1024**3``."""
    nodes = list(ast.walk(value))
    constants = [each.value for each in nodes if isinstance(each, ast.Constant)]
    made = (ast.Constant, ast.BinOp, ast.operator)
    return all(isinstance(each, made) for each in nodes) and constants not in ([0], [0.0])


def _is_added(source: Source, target: ast.Name) -> bool:
    """Whether the same scope adds it to other memory."""
    scope = scope_of(source, target)
    for name in source.nodes(ast.Name):
        if name.id != target.id or not isinstance(name.ctx, ast.Load):
            continue
        above = source.parent(name)
        if not isinstance(above, ast.BinOp) or not isinstance(above.op, ast.Add):
            continue
        others = [each.id for each in ast.walk(above) if isinstance(each, ast.Name)]
        known = any(MEMORY.search(each) for each in others if each != target.id)
        if known and scope_of(source, name) is scope:
            return True
    return False
