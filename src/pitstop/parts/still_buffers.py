"""Buffers that nobody writes into: tables, masks, windows; not the averages of BatchNorm.

DistributedDataParallel sends all buffers from rank 0 to the others before each forward pass. Where
none of them moves, they are what they were, on all ranks. A class of torch's own is known, one of
the user's is read: it must not assign the buffer, change it in place or hand it on.
"""

import ast
import inspect
import textwrap
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from pitstop import internals
from pitstop.parts.ddp_rounds import buffers_of

TORCHS = "torch.nn.modules."
ASKING = {"shape", "dtype", "device", "ndim", "size", "dim", "numel"}  # tell of it, no number
SHARING = {"view", "reshape", "expand", "to", "type_as", "unsqueeze", "flatten", "permute", "float"}
SHARING |= {"long", "int", "half", "double", "bool", "clone", "detach", "contiguous", "squeeze"}
NAMELESS = {"setattr", "vars", "buffers", "named_buffers", "_buffers"}  # reach it by no name


class StillBuffers:
    """All buffers of a model as they are now."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._seen = self._now()

    def are_still(self) -> bool:
        """Whether nobody has written into them, or put others in their places."""
        return self._now() == self._seen

    def _now(self) -> list[tuple[int, int]]:
        return [(id(buffer), internals.writes(buffer)) for buffer in self._model.buffers()]


def stay(model: nn.Module) -> bool:
    """Whether no class of the model writes into its own buffers, as far as its source tells."""
    names: dict[type, set[str]] = {}
    for module, name, _ in buffers_of(model):
        if isinstance(module, _NormBase) or hasattr(module, "parametrizations"):
            return False
        if internals.forward_pre_hooks(module) or internals.forward_hooks(module):
            return False  # as spectral_norm's, which write
        names.setdefault(type(module), set()).add(name)
    return all(_only_reads(kind, of) for kind, of in names.items())


def _only_reads(kind: Any, names: set[str]) -> bool:
    for each in kind.__mro__:
        if each is nn.Module:
            return True
        if str(each.__module__).startswith(TORCHS):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):
            return False
        if _writes(tree, names):
            return False
    return True


def _writes(tree: ast.AST, names: set[str]) -> bool:
    """Whether a buffer is anything but an operand, an index or asked about itself."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in parents:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in NAMELESS:
                return True
            case ast.Attribute(attr=name, ctx=use) if name in names:
                if not isinstance(use, ast.Load) or not _is_read(node, parents):
                    return True
    return False


def _is_read(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Likewise of what shares its memory: a slice, or another shape."""
    above = parents[node]
    match above:
        case ast.BinOp() | ast.Compare() | ast.UnaryOp():
            return True
        case ast.Subscript(_, index, ast.Load()):
            return index is node or _is_read(above, parents)
        case ast.Attribute(attr=name) if name in ASKING:
            return True
        case ast.Attribute(attr=name) if name in SHARING:
            call = parents[above]
            return isinstance(call, ast.Call) and call.func is above and _is_read(call, parents)
    return False
