"""Settings: what torch is set to, asked so that it neither warns nor fails."""

from typing import Any

import torch
from torch.nn.attention import SDPBackend

from pitstop import internals
from pitstop.core.evidence import DROPOUT, LEARNED_BIAS
from pitstop.profile.hooks.attempt import attempt


def read_settings(device: str, autocast: str) -> dict[str, Any]:
    """The switches that decide how fast the same model runs."""
    return {
        "device": device or "cpu",
        "threads": torch.get_num_threads(),
        "tf32_matmul": _tf32(torch.backends.cuda.matmul),
        "tf32_cudnn": _tf32(getattr(torch.backends.cudnn, "conv", None)),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
        "deterministic": torch.are_deterministic_algorithms_enabled()
        or bool(torch.backends.cudnn.deterministic),
        "autocast": autocast,
        "bfloat16": _has_bfloat16(device or "cpu"),
        "unfused": attempt(_unfused, device or "cpu", otherwise=[]),
    }


def _has_bfloat16(device: str) -> bool:
    """Whether the device has arithmetic for it; where nobody can tell, it has.

    Modes of the script's own would see the question.
    """
    try:
        if device.startswith("cuda"):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
        with internals.without_function_modes(), internals.without_dispatch_modes():
            return device != "cpu" or bool(internals.cpu_has_bfloat16())
    except (AttributeError, RuntimeError, TypeError):
        return True


def _unfused(device: str) -> list[str]:
    """With what torch takes its path in plain operations, asked for each of the two."""
    with internals.without_function_modes(), internals.without_dispatch_modes():
        query = torch.empty(1, 2, 16, 32, device=device)
        bias = torch.empty(1, 2, 16, 16, device=device, requires_grad=True)
        ways: dict[str, dict[str, Any]] = {
            LEARNED_BIAS: {"attn_mask": bias},
            DROPOUT: {"dropout_p": 0.1},
        }
        choose: Any = internals.fused_attention_choice
        plain = SDPBackend.MATH.value
        return [name for name, way in ways.items() if choose(*[query] * 3, **way) == plain]


def _tf32(switches: Any) -> bool:
    """By the newer switch where torch has it: to ask the older one fails once both were used."""
    precision = getattr(switches, "fp32_precision", None)
    if precision is not None:
        return bool(precision == "tf32")
    return bool((switches or torch.backends.cudnn).allow_tf32)
