"""PIT405 checkpoint-without-use-reentrant."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix, Severity
from pitstop.core.rule import rule
from pitstop.scan.edits import add_argument
from pitstop.scan.source import Source

CHECKPOINTS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")


@rule("PIT405", worth="small")
def checkpoint_without_use_reentrant(source: Source) -> Iterator[Finding]:
    """Checkpointing runs in its old, reentrant form, because no form is named.

    The reentrant form hides the block from torch.compile and DDP, gives parameters no gradient
    when no input asks for one, and warns. The other form recomputes the same numbers and stops
    early. `use_reentrant=True` is taken as meant.

    Bad:
        x = torch.utils.checkpoint.checkpoint(block, x)

    Good:
        x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
    """
    if "checkpoint" not in source.text or not source.project.runs_with_torch(1, 11):
        return
    for call in source.calls(*CHECKPOINTS):
        if any(keyword.arg in (None, "use_reentrant") for keyword in call.keywords):
            continue
        if not _is_for_old_torch(source, call):
            # Where no input needed a gradient, training changes: the fix is not a safe one.
            argument = add_argument(source, call, "use_reentrant=False")
            trains = source.project.calls_method("backward", "manual_backward", "fit")
            worth: Severity = "warning" if trains else "note"
            fix = Fix("Name the form", (argument,))
            yield source.finding(call, fix=fix, severity=worth)


def _is_for_old_torch(source: Source, call: ast.Call) -> bool:
    """Whether another branch names the form: this one is for a torch that has no choice."""
    block = source.enclosing(call, ast.If, ast.Try)
    while block is not None:
        if "use_reentrant" in source.text_of(block):
            return True
        block = source.enclosing(block, ast.If, ast.Try)
    return False
