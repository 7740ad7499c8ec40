"""Withheld: a step of an optimizer that changes nothing if its gradients are bad.

A fused optimizer of torch reads ``found_inf`` on the device and takes no step where it is one; that
is how GradScaler talks to it, and needs no answer on the host. Any other optimizer must be told
before its step, so the answer is waited for: nothing on a CPU, on a GPU the time until it has done
what is queued. Without gradients a step does nothing, so they are hidden meanwhile.
"""

from typing import Any

import torch

Gradients = list[tuple[torch.Tensor, torch.Tensor]]


def by_device(optimizer: torch.optim.Optimizer, flag: torch.Tensor) -> bool:
    """Let the kernel of the step decide by the flag; False where this optimizer has none such."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False) or flag.device.type == "cpu":
        return False
    vars(optimizer).update(found_inf=flag, grad_scale=None)
    return True


def is_scalers(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a GradScaler has told this step already what to do."""
    return getattr(optimizer, "found_inf", None) is not None


def hide(optimizer: torch.optim.Optimizer) -> Gradients:
    """Take the gradients away; a step without them leaves weights and state as they are."""
    hidden = []
    for group in optimizer.param_groups:
        for each in group["params"]:
            if each.grad is not None:
                hidden.append((each, each.grad))
                each.grad = None
    return hidden


def show(hidden: Gradients) -> None:
    """Give them back: the script may look at them."""
    for parameter, gradient in hidden:
        parameter.grad = gradient


def forget(optimizer: Any) -> None:
    """Take back what ``by_device`` told the optimizer."""
    for name in ("found_inf", "grad_scale"):
        vars(optimizer).pop(name, None)
