"""Guards: branches that are taken rarely, so that what they cost does not matter."""

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pitstop.scan.source import Source

# Flags that are off in a run that is meant to be fast, or on once in many steps.
RARE_FLAG = re.compile(
    r"(?:^|_)(?:debug|verbose|profile|profiling|dump|visuali[sz]e|do_log|should_log|log_now|sanity"
    r"|is_first|first_step|first_iter|last_step|is_last|should_save|warmup|dry_run)(?:_|$)",
    re.IGNORECASE,
)
COUNTER = re.compile(
    r"(?:^|_)(?:i|j|it|idx|index|iter|iters|iteration|step|batch|batch_idx|n_iter|count|epoch)$"
)
LOG_LEVEL = "isEnabledFor"
EMPTY = (None, 0)  # what a slot holds before its first use
FLAG_DEPTH = 3  # flags made of flags; `ready = ready or ...` in a loop is made of itself


def is_rare_branch(
    source: "Source", parent: ast.If | ast.IfExp | ast.ExceptHandler, child: ast.AST
) -> bool:
    """Whether the branch of ``parent`` that holds ``child`` is taken only now and then."""
    if isinstance(parent, ast.ExceptHandler):
        return isinstance(child, ast.stmt)
    if child is parent.test:
        return False
    body = parent.body if isinstance(parent.body, list) else [parent.body]
    return _is_rare(source, parent.test, child in body) or _renews(source, parent, child)


def _renews(source: "Source", parent: ast.If | ast.IfExp, child: ast.AST) -> bool:
    """Whether it is in the ``else`` that renews what the test has found to be kept and right."""
    if not isinstance(parent, ast.If) or child not in parent.orelse:
        return False
    assigned = [each for each in parent.orelse if isinstance(each, ast.Assign)]
    slots = {source.name_of(target) for each in assigned for target in each.targets}
    if not any("." in slot for slot in slots):
        return False
    read = {
        source.name_of(each) for each in ast.walk(parent.test) if isinstance(each, ast.Attribute)
    }
    return any("." in slot for slot in slots & read)


def runs_once(parent: ast.If, child: ast.AST, in_innermost: bool) -> bool:
    """Whether the branch with ``child`` leaves the hot loop: by return, or break if it can."""
    last = (parent.body if child in parent.body else parent.orelse or parent.body)[-1]
    if child is parent.test:
        return False
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("sys.exit", "exit", "quit", "os._exit")
    return isinstance(last, ast.Return | ast.Raise) or (
        isinstance(last, ast.Break) and in_innermost
    )


def is_behind_an_exit(source: "Source", parent: ast.AST, child: ast.AST) -> bool:
    """Whether ``if step % 100: continue``, or return, stands before ``child`` in its block."""
    line = source.exits.get(parent)
    return line is not None and getattr(child, "lineno", 0) > line and child in _body(parent)


def read_exits(source: "Source") -> dict[ast.AST, int]:
    """Blocks that are mostly left early, with the line of the first ``if`` that does so.

    An exit in a branch counts for the block around, too.
    """
    found: dict[ast.AST, int] = {}
    for branch in source.nodes(ast.If):
        leaves = isinstance(branch.body[-1], ast.Continue | ast.Return)
        child: ast.AST = branch
        above = source.parent(branch)
        while above is not None and leaves and _is_rare(source, branch.test, False):
            if child in _body(above):
                found.setdefault(above, getattr(child, "lineno", 0))
            if not isinstance(above, ast.If):
                break
            child, above = above, source.parent(above)
    return found


def _body(block: ast.AST) -> list[ast.AST]:
    body = getattr(block, "body", [])
    return body if isinstance(body, list) else []


def _is_rare(  # noqa: PLR0911 one per shape
    source: "Source", test: ast.expr, wanted: bool, depth: int = FLAG_DEPTH
) -> bool:
    """Whether ``test`` is rarely ``wanted``; ``depth``: how many flags are looked through."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_rare(source, operand, not wanted, depth)
        case ast.BoolOp(op=ast.And(), values=values):
            return wanted and any(_is_rare(source, each, True, depth) for each in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            rare = [_is_rare(source, each, wanted, depth) for each in values]
            return all(rare) if wanted else any(rare)  # `i % 100 == 0 or last`
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):  # `x.isnan().any() | ...`
            return wanted and all(_is_rare(source, each, True, depth) for each in (left, right))
        case ast.BinOp(op=ast.Mod()):
            return not wanted  # `if step % 100:` is nearly always true
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _is_rare_comparison(source, left, operator, right, wanted)
        case ast.Call():
            return _is_rare_call(source, test, wanted, depth)
        case ast.Name() | ast.Attribute():
            return _is_rare_flag(source, test, wanted, depth)
    return False


def _is_rare_comparison(
    source: "Source", left: ast.expr, operator: ast.cmpop, right: ast.expr, wanted: bool
) -> bool:
    equal = isinstance(operator, ast.Eq | ast.Is)
    if isinstance(operator, ast.GtE | ast.Gt):  # `if i >= len(loader) - 1`
        return wanted and _is_counter(source, left) and "len(" in ast.unparse(right)
    if isinstance(operator, ast.In | ast.NotIn):  # `if step in (1, 10, 100)`
        return wanted == isinstance(operator, ast.In) and _is_counter(source, left)
    if not equal and not isinstance(operator, ast.NotEq | ast.IsNot):
        return False
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
        return equal == wanted
    if isinstance(right, ast.Constant) and right.value in EMPTY and _is_filled_here(source, left):
        return equal == wanted
    certain = isinstance(right, ast.Constant | ast.BinOp | ast.Call)  # 0, or `len(loader) - 1`
    counted = _is_counter(source, left) and certain and equal == wanted
    return counted or (not equal and wanted and _is_renewed_here(source, left))


def _is_renewed_here(source: "Source", read: ast.expr) -> bool:
    """Whether ``if self.grid.shape != x.shape`` renews what it has kept from the last time."""
    while isinstance(read, ast.Subscript | ast.Attribute | ast.Call):
        inner = read.func if isinstance(read, ast.Call) else read.value
        if isinstance(read, ast.Attribute) and _is_filled_here(source, read):
            return True
        read = inner
    return False


def _is_counter(source: "Source", node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # `i + 1 == len(loader)`
        node = node.left
    return bool(COUNTER.search(source.name_of(node).rpartition(".")[2]))


def _is_rare_flag(
    source: "Source", flag: ast.Name | ast.Attribute, wanted: bool, depth: int
) -> bool:
    """A flag that is rare by its name, or by the one or more tests that were assigned to it."""
    if wanted and RARE_FLAG.search(source.name_of(flag).rpartition(".")[2]):
        return True
    if isinstance(flag, ast.Attribute) and _is_switched_here(source, flag, not wanted):
        return True
    values = (source.assigned(flag) or []) if depth and isinstance(flag, ast.Name) else []
    tests = [each for each in values if not isinstance(each, ast.Name | ast.Attribute)]
    return any(_is_rare(source, each, wanted, depth - 1) for each in tests)


def _is_switched_here(source: "Source", flag: ast.Attribute, value: bool) -> bool:
    """Whether what ``if self.first:`` guards ends with ``self.first = False``: it runs once."""
    statement, name = source.statement(flag), source.name_of(flag)
    return isinstance(statement, ast.If) and any(
        isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Constant)
        and each.value.value is value
        and any(source.name_of(target) == name for target in each.targets)
        for each in ast.walk(statement)
    )


def _is_filled_here(source: "Source", slot: ast.expr) -> bool:
    """Whether ``if slot is None`` fills a slot that is kept from step to step."""
    statement = source.statement(slot)
    name = source.name_of(slot)
    if not isinstance(statement, ast.If) or not _is_kept(source, slot):
        return False
    stored = re.escape(source.text_of(slot)) + r"\s*[=\[,:]"
    if not re.search(stored, source.text_of(statement)):  # most are only read: spares the walk
        return False
    targets = [
        target.value if isinstance(target, ast.Subscript) else target
        for each in ast.walk(statement)
        if isinstance(each, ast.Assign)
        for target in each.targets
    ]
    return any(source.name_of(target) == name for target in targets)


def _is_kept(source: "Source", slot: ast.expr) -> bool:
    """Whether a value outlives the call: an attribute, or a name declared global."""
    if isinstance(slot, ast.Attribute):
        return True
    function = source.enclosing_function(slot)
    shared = (
        each.names
        for each in source.nodes(ast.Global)
        if source.enclosing_function(each) is function
    )
    return isinstance(slot, ast.Name) and any(slot.id in names for names in shared)


def _is_rare_call(source: "Source", test: ast.Call, wanted: bool, depth: int) -> bool:
    if isinstance(test.func, ast.Attribute) and test.func.attr in ("any", "all", "item"):
        return _is_rare(source, test.func.value, wanted, depth)
    name = source.name_of(test.func)
    if name == "hasattr":
        return not wanted  # `if not hasattr(self, "mask")`: built on first use
    last = name.rpartition(".")[2]
    if last in ("isnan", "isinf", "isfinite"):
        return wanted == (last != "isfinite")
    return wanted and (last == LOG_LEVEL or bool(RARE_FLAG.search(last)))
