"""Finite: whether gradients are finite, asked on the device, without waiting for the answer."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from pitstop import internals


def gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The gradients that the next step of an optimizer takes."""
    found = [each.grad for group in optimizer.param_groups for each in group["params"]]
    return [each for each in found if each is not None]


@torch.no_grad()
def is_bad(tensors: Iterable[torch.Tensor]) -> torch.Tensor | None:
    """1 where any number is not finite, else 0, on the device of the first; None without any.

    It is the kernel by which torch's GradScaler looks at gradients, with a scale of one: one launch
    for all tensors of a device and type.
    """
    alike: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = defaultdict(list)
    for tensor in tensors:
        values = _values(tensor)
        if values.numel():
            alike[values.device, values.dtype].append(values)
    flags = []
    for (device, _), each in alike.items():
        flag = torch.zeros((), device=device)
        internals.unscale_and_check(each, flag, torch.ones((), device=device))
        flags.append(flag)
    if len(flags) <= 1:
        return flags[0] if flags else None
    return torch.stack([flag.to(flags[0].device) for flag in flags]).amax(0)


def agreed(flag: torch.Tensor) -> torch.Tensor:
    """The same answer on all ranks: one bad rank is enough for all of them."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return flag


def _values(tensor: torch.Tensor) -> torch.Tensor:
    local: Any = getattr(tensor, "_local_tensor", tensor)  # of a tensor that ranks share
    if local.is_sparse:
        local = local.coalesce().values()
    values: torch.Tensor = torch.view_as_real(local) if local.is_complex() else local
    return values.detach()
