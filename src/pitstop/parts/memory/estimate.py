"""Memory estimate: the peak of a step, told from shapes alone.

Why guesses are wrong: "parameters, twice that for Adam, and 10 GB" leaves out the gradients, what
the backward pass needs, and all that operations and the allocator add. Activations are most of it
for pictures and clips, and no rule of thumb knows them: a checkpoint, autocast or a fused
attention changes them by a factor.

What is done: model, batch and optimizer are copied as fake tensors, which have shapes and types but
no bytes. Two steps are taken with them: autograd, checkpoints, autocast and optimizers run as they
are, and nothing is computed. Each block of memory is seen when it is made and when it is freed, and
placed as CUDA's caching allocator would. What kernels take inside themselves is added from a table.

The floor: a second or two, no memory, no GPU. Not seen: memory that extensions take by themselves,
other processes, CUDA's own context (about 0.5 GB, which ``torch.cuda`` does not count either), and
``torch.compile``, whose fused model takes less. A model that decides by the values of tensors
(``.item()``) cannot be looked at: ``dry_run=True`` takes a real step instead. The twin is the step
itself, and ``torch.cuda.max_memory_allocated``.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes
from pitstop.parts.memory.account import Account, Share, account_of
from pitstop.parts.memory.step import Loss, Optimizer, Task, Way, trace_of
from pitstop.parts.memory.trace import Trace
from pitstop.parts.memory.workspace import CUBLAS

MODULES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What a step needs; ``print`` it."""

    account: Account
    parameters: int  # how many numbers
    training: bool
    how: str

    @property
    def peak_bytes(self) -> int:
        """In use at most, as ``torch.cuda.max_memory_allocated`` counts."""
        return self.account.peak_bytes

    @property
    def reserved_bytes(self) -> int:
        """Held of the GPU: this must fit."""
        return self.account.reserved_bytes

    @property
    def kinds(self) -> dict[str, int]:
        """Bytes at the peak: parameters, gradients, optimizer state, activations ..."""
        return self.account.kinds

    @property
    def kept_bytes(self) -> int:
        """Activations, all that the forward pass keeps for the backward pass."""
        return self.account.kept_bytes

    @property
    def modules(self) -> tuple[Share, ...]:
        """Who holds them, the largest first."""
        return self.account.modules

    @property
    def lines(self) -> tuple[Share, ...]:
        """The lines that made what was not there before the step."""
        return self.account.lines

    def __str__(self) -> str:
        what = "training step" if self.training else "call"
        rows = [
            f"peak of a {what}: {binary_bytes(self.peak_bytes)}, in the {self.account.phase} pass; "
            f"{binary_bytes(self.reserved_bytes)} reserved ({self.how})"
        ]
        rows += [f"  {binary_bytes(size):>10}  {kind}" for kind, size in self.kinds.items()]
        rows.append("by module, at the peak")
        rows += [
            f"  {binary_bytes(each.bytes):>10}  {each.name or '(the step itself)'}"
            for each in self.modules[:MODULES_SHOWN]
        ]
        return "\n".join(rows)


def memory_estimate(  # noqa: PLR0913 each is asked for by some script
    model: nn.Module,
    batch: Any,
    optimizer: Optimizer | type[Optimizer] | None = None,
    *,
    loss: Loss | None = None,
    training: bool | None = None,
    accumulate: int = 1,
    autocast: torch.dtype | None = None,
    on: Literal["cuda", "cpu"] = "cuda",
    dry_run: bool = False,
) -> MemoryEstimate:
    """The peak memory of a training step, or of a call without gradients.

    print(memory_estimate(model, batch, optimizer=torch.optim.AdamW))

    ``batch`` is what the model is called with: a tensor, a tuple, or a dictionary of arguments.
    ``loss`` makes a number of what it returns; by default its own ``loss``, or the sum. It is a
    training step where there is an optimizer or a loss. ``autocast`` is that which is on, unless
    one is given. ``dry_run`` takes one real step with copies instead, where the model is.
    """
    if accumulate < 1:
        raise PitstopError(f"accumulate={accumulate}: it is a number of batches, from 1 on")
    if on not in {"cuda", "cpu"}:
        raise PitstopError(f'on="{on}" is not known: say "cuda" or "cpu"')
    if training is None:
        training = optimizer is not None or loss is not None
    if training and not any(each.requires_grad for each in model.parameters()):
        raise PitstopError("no parameter of the model is trained: leave optimizer and loss out")
    if autocast is None and torch.is_autocast_enabled(on):
        autocast = torch.get_autocast_dtype(on)
    if isinstance(optimizer, type):
        trained = [each for each in model.parameters() if each.requires_grad]
        optimizer = optimizer(trained)  # type: ignore[call-arg]  # with its own defaults
    task = Task(model, batch, optimizer, loss, accumulate, training)
    count = sum(each.numel() for each in model.parameters())
    with torch.set_grad_enabled(training), _no_autocast():
        if dry_run:
            return MemoryEstimate(_dry_run(task, on, autocast), count, training, "from a real step")
        try:
            trace = trace_of(task, Way(on, _device(on), autocast))
        except PitstopError:
            raise
        except Exception as error:
            raise _refused(error) from error
    return MemoryEstimate(_account(trace, on, training), count, training, "from shapes")


def _account(trace: Trace, on: str, training: bool) -> Account:
    if on == "cpu":
        return account_of(trace, rounded=False)
    return account_of(trace, rounded=True, standing_bytes=(CUBLAS,) * (2 if training else 1))


def _dry_run(task: Task, on: str, autocast: torch.dtype | None) -> Account:
    """A real step with copies; on a GPU the allocator says what nobody sees."""
    device = next(task.model.parameters()).device.type
    way = Way(on, device, autocast, real=True)
    if device != "cuda":
        return account_of(trace_of(task, way), rounded=on == "cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    seen = account_of(trace_of(task, way), rounded=True)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    reserved = max(seen.reserved_bytes, seen.reserved_bytes + peak - seen.peak_bytes)
    kinds = {**seen.kinds, "workspace": max(0, peak - seen.peak_bytes)}
    return replace(seen, peak_bytes=peak, reserved_bytes=reserved, kinds=kinds)


def _device(on: str) -> str:
    """Where fake tensors are: a torch without CUDA cannot make them on a GPU."""
    return "cuda" if on == "cuda" and torch.cuda.is_available() else "cpu"


def _no_autocast() -> ExitStack:
    """Autocast is turned on again around model and loss, as scripts do it."""
    stack = ExitStack()
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            stack.callback(torch.set_autocast_enabled, device, True)
            torch.set_autocast_enabled(device, False)
    # Only the outermost autocast forgets its weights in lower precision when it ends.
    for _ in range(torch.autocast_increment_nesting()):
        torch.autocast_decrement_nesting()
        stack.callback(torch.autocast_increment_nesting)
    stack.callback(torch.autocast_decrement_nesting)  # the one just added
    return stack


def _refused(error: Exception) -> PitstopError:
    name, said = type(error).__name__, str(error).strip().splitlines()
    if name in {"DataDependentOutputException", "DynamicOutputShapeException"}:
        return PitstopError(
            f"the step decides by the values of a tensor ({said[0]}), which shapes do not tell: "
            "dry_run=True takes a real step"
        )
    return PitstopError(
        f"the step failed with stand-ins: {name}: {said[0] if said else 'no message'}: "
        "see that it runs, or take a real step with dry_run=True"
    )
