"""PIT202 tensor-built-on-cpu."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit, Finding, Fix, Severity
from pitstop.core.rule import rule
from pitstop.scan.edits import add_argument
from pitstop.scan.rare import is_afterwards
from pitstop.scan.source import Source

# Random factories are left out: the same seed gives other numbers on the GPU.
FACTORIES = {"torch.zeros", "torch.ones", "torch.empty", "torch.full"}


@rule("PIT202", worth="small")
def tensor_built_on_cpu(source: Source) -> Iterator[Finding]:
    """Tensor is filled on the CPU, then copied to its device.

    The copy makes Python wait for the GPU. Naming the device up front costs one
    kernel launch and no copy.

    Bad:
        mask = torch.zeros(h, w).to(frames.device)

    Good:
        mask = torch.zeros(h, w, device=frames.device)
    """
    for call in source.method_calls("to"):
        match call:
            case ast.Call(ast.Attribute(ast.Call() as made, "to"), args=[where], keywords=[]):
                if source.name_of(made.func) not in FACTORIES:
                    continue
                if source.name_of(where).rpartition(".")[2] != "device":
                    continue  # .to(x) may also mean a dtype or another tensor
                if _is_empty(made):
                    continue  # there is nothing to copy
                if any(keyword.arg != "dtype" for keyword in made.keywords):
                    continue  # pin_memory=, requires_grad= and out= change the meaning
                name_it = add_argument(source, made, f"device={source.text_of(where)}")
                drop_to = Edit(source.extent(made)[1], source.extent(call)[1], "")
                fix = Fix("Name the device", (name_it, drop_to), safe=True)
                worth: Severity = "warning" if _is_frequent(source, call) else "note"
                yield source.finding(call, severity=worth, fix=fix)


def _is_frequent(source: Source, call: ast.Call) -> bool:
    """Whether a loop runs it, as far as one sees; that a class has a ``forward`` is not enough."""
    hot = source.hot(call)
    if hot is None or hot.guarded or hot.kind == "validation" or is_afterwards(source, call):
        return False
    return hot.depth > 0 or "loop" in hot.reason


def _is_empty(made: ast.Call) -> bool:
    """Whether a size is 0: of ``zeros((0, 4))`` and ``zeros(0, 4)``."""
    first = made.args[0] if made.args else None
    sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
    return any(isinstance(each, ast.Constant) and each.value == 0 for each in sizes)
