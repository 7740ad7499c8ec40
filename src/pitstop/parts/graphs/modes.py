"""Modes: how torch would compute now. A graph computes as torch did when it was captured."""

from typing import Any

import torch
from torch import distributed
from torch.nn.modules import module as modules

from pitstop import internals
from pitstop.parts.graphs.reasons import Reason

HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


def modes(device: str) -> tuple[Any, ...]:
    """All settings that decide which kernels run, and what they compute."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled(device),
        torch.get_autocast_dtype(device),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        *_precision(),
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
    )


def _precision() -> tuple[Any, ...]:
    """TF32 or not. Newer versions have a second interface, and refuse to mix both."""
    newer = internals.fp32_precision
    if newer is None:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    return newer("cuda", "matmul"), newer("cuda", "conv"), newer("cuda", "rnn")


def obstacle() -> Reason | None:
    """What stands against any replay now: somebody listens, or this is no plain call."""
    several = distributed.is_available() and distributed.is_initialized()
    found = {
        Reason.MODE: _is_seen_through() or _is_listened_to(),
        Reason.BACKWARD: internals.backward_pass() != -1,
        Reason.HOOKED: any(getattr(modules, name) for name in HOOKS),
        Reason.RANKS: several and torch.is_grad_enabled() and distributed.get_world_size() > 1,
    }
    return next((reason for reason, stands in found.items() if stands), None)


def _is_seen_through() -> bool:
    tracing = internals.is_tracing() or torch.compiler.is_compiling()
    return tracing or internals.is_transformed()


def _is_listened_to() -> bool:
    listeners = internals.dispatch_modes() + internals.function_modes()
    return listeners > 0 or _saved_tensors_are_packed()


def _saved_tensors_are_packed() -> bool:
    """Whether a checkpoint, or an offload, takes what is saved for the backward pass."""
    return internals.saved_tensor_hooks(True) is not None
