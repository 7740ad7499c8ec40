"""Loops: which of them run once per batch, frame or denoising step."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pitstop.scan.scopes import reaching
from pitstop.scan.vocabulary import COMMON_METHODS

if TYPE_CHECKING:
    from pitstop.scan.source import Source

HotKind = Literal["step", "frame", "sample", "validation"]  # the hottest first
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While

LOADER_NAME = re.compile(
    r"(?:^|_)(?:dl|data_?iter)$|^(?:(?:train|val|test|eval|data)(?:ing|idation)?_)?batches$"
    r"|loader(?:_?iter)?$",
    re.IGNORECASE,
)
NOT_A_LOADER = re.compile(
    r"(?:model|weight|image|file|off|config|checkpoint|lora)_?loader$"
    r"|(?:^|_)(?:num|n|nb|no|total|max|min)_?batches$",
    re.IGNORECASE,
)
VALIDATION_NAME = re.compile(
    r"(?:^|_)(?:val|valid|validation|test|eval|dev)(?:_|d|l|$)", re.IGNORECASE
)
VALIDATES = re.compile(r"(?:^|_)(?:val|valid|validate|validation|eval|evaluate|evaluation)(?:_|$)")
FRAME_NAME = re.compile(r"(?:^|_)(?:frames?|tiles?|patches|views)(?:_np|_list)?$", re.IGNORECASE)
FRAME_COUNT = re.compile(
    r"(?:num|n|total|max)_?(?:frames|tiles|patches)$|frame_?(?:cnt|count)$", re.IGNORECASE
)
NOT_FRAMES = re.compile(r"condition_\w*frames$")  # a few pictures in front of the others
FRAME_TARGETS = {"frame", "tile", "patch", "frame_idx", "tile_idx", "i_frame"}
TIMESTEPS = re.compile(r"(?:^|_)timesteps$")
OPTIMIZER_NAME = re.compile(r"opt(?:im|imizer|im_\w+|imizer_\w+)?$|optim", re.IGNORECASE)
WRAPPER_DEPTH = 4  # enumerate(tqdm(islice(loader, n))) and one more
NO_GRADIENTS = {"torch.no_grad", "torch.inference_mode", "torch.autograd.grad_mode.no_grad"}


@dataclass(frozen=True, slots=True)
class Heat:
    """Why the body of a loop is hot."""

    kind: HotKind
    reason: str  # "loop over train_loader"
    line: int


def loop_heat(source: "Source", loop: ast.AST, evaluation: bool) -> Heat | None:
    """The heat of a ``for``, ``while`` or comprehension; ``evaluation``: gradients are off."""
    heat = None
    if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension):
        heat = _iteration_heat(source, loop, evaluation)
    if heat is None and loop in source.step_loops:
        kind: HotKind = "step"
        heat = Heat(kind, f"loop that calls {source.step_loops[loop]}", _line(loop))
    if heat is None and loop in source.inference_loops:
        heat = Heat("frame", f"loop that runs {source.inference_loops[loop]}", _line(loop))
    return heat


def _iteration_heat(
    source: "Source", loop: ast.For | ast.AsyncFor | ast.comprehension, evaluation: bool
) -> Heat | None:
    line = _line(loop.iter)
    for candidate in _iterated(loop.iter, WRAPPER_DEPTH):
        name = source.name_of(candidate)
        last = name.rpartition(".")[2]
        if is_loader(source, candidate):
            off = evaluation or VALIDATION_NAME.search(last) or _evaluates(source, loop)
            off = off or _is_in_a_validation(source, loop)
            kind: HotKind = "validation" if off else "step"
            return Heat(kind, f"loop over {name or 'a DataLoader'}", line)
        frames = FRAME_NAME.search(last) or FRAME_COUNT.search(last)
        if frames and not NOT_FRAMES.search(last):
            return Heat("frame", f"loop over {name}", line)
        if TIMESTEPS.search(last) and not isinstance(loop, ast.comprehension):
            return Heat("step", f"denoising loop over {name}", line)
    targets = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    if targets & FRAME_TARGETS:
        return Heat("frame", f"loop over each {min(targets & FRAME_TARGETS)}", line)
    return None


def _is_in_a_validation(source: "Source", loop: ast.AST) -> bool:
    """Whether the function around says so, and trains nothing: ``nondist_validation``."""
    function = source.enclosing_function(loop)
    named = function is not None and VALIDATES.search(function.name)
    return bool(named) and loop not in source.step_loops


def _evaluates(source: "Source", loop: ast.AST) -> bool:
    """Whether a loop turns gradients off itself and never runs backward."""
    if loop in source.step_loops or not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    blocks = [each for each in loop.body if isinstance(each, ast.With)]
    return any(
        turns_gradients_off(source, [item.context_expr for item in block.items]) for block in blocks
    )


def turns_gradients_off(source: "Source", expressions: list[ast.expr]) -> bool:
    """Whether one of these decorators or ``with`` items is ``torch.no_grad`` or its like."""
    functions = [each.func if isinstance(each, ast.Call) else each for each in expressions]
    return any(source.name_of(each) in NO_GRADIENTS for each in functions)


def _iterated(node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """The iterable and all that wrappers such as ``enumerate``, ``tqdm`` or ``zip`` take."""
    yield node
    if depth == 0:
        return
    if isinstance(node, ast.Call):
        for argument in node.args:
            yield from _iterated(argument, depth - 1)
        if isinstance(node.func, ast.Attribute) and not node.args:
            yield node.func  # trainer.train_dataloader()
    if isinstance(node, ast.Subscript):
        yield from _iterated(node.value, depth - 1)


def is_loader(source: "Source", node: ast.AST) -> bool:
    """Whether an expression is a DataLoader, by its name or by what was assigned to it."""
    if isinstance(node, ast.Call):
        return source.name_of(node.func).rpartition(".")[2] == "DataLoader"
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    last = node.id if isinstance(node, ast.Name) else node.attr
    if LOADER_NAME.search(last):
        return not NOT_A_LOADER.search(last)
    if "DataLoader" not in source.text:
        return False
    values = [each.value for each in reaching(source, node) if each.how == "assign"]
    return any(isinstance(each, ast.Call) and is_loader(source, each) for each in values)


def read_step_loops(source: "Source") -> dict[ast.AST, str]:
    """Innermost loops that run backward, step an optimizer or draw the next batch.

    A function of this file that runs backward once is such a step, too.
    """
    found: dict[ast.AST, str] = {}
    for call, what in (*_step_calls(source), *_calls_of_steps(source)):
        loop = source.enclosing_loop(call)
        if loop is not None:
            found.setdefault(loop, what)
    return found


def _step_calls(source: "Source") -> Iterator[tuple[ast.Call, str]]:
    for call in source.method_calls("backward", "manual_backward"):
        yield call, "backward"
    for call in source.method_calls("step"):
        assert isinstance(call.func, ast.Attribute)
        if OPTIMIZER_NAME.search(source.name_of(call.func.value).rpartition(".")[2]):
            yield call, "optimizer.step"
    for call in source.calls("next"):
        last = source.name_of(call.args[0]).rpartition(".")[2] if call.args else ""
        if LOADER_NAME.search(last) or last.endswith("data_iterator"):
            yield call, f"next({last})"


def _calls_of_steps(source: "Source") -> Iterator[tuple[ast.Call, str]]:
    """Calls ``step()``, ``self.step()`` of functions in this file that run backward once."""
    once = [call for call in source.method_calls("backward") if not source.enclosing_loop(call)]
    functions = [source.enclosing_function(call) for call in once]
    names = {each.name for each in functions if each is not None and each.name != "backward"}
    for call in source.method_calls(*names):
        assert isinstance(call.func, ast.Attribute)
        own = isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
        if own or call.func.attr not in COMMON_METHODS:
            yield call, source.text_of(call.func)
    for call in source.calls(*names):
        yield call, source.text_of(call.func)


def trains(source: "Source", node: ast.AST) -> bool:
    """Whether a loop around it runs backward or steps an optimizer."""
    loop = source.enclosing_loop(node)
    return loop is not None and (loop in source.step_loops or trains(source, loop))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
