"""GroupNorm with what follows it in plain PyTorch: fallback, oracle and documentation."""

import torch
import torch.nn.functional as F

Maybe = torch.Tensor | None


def group_norm_silu_twin(  # noqa: PLR0913 (as the part)
    x: torch.Tensor,
    num_groups: int,
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    *,
    silu: bool = True,
    residual: Maybe = None,
    scale: Maybe = None,
    shift: Maybe = None,
    channel_bias: Maybe = None,
) -> torch.Tensor:
    """Compute the same in plain PyTorch: in fp32, or fp64 for fp64, rounded once at the end."""
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    per_channel = (*x.shape[:2], *[1] * (x.dim() - 2))
    y = x.to(exact)
    if channel_bias is not None:
        y = y + channel_bias.to(exact).view(1, *per_channel[1:])
    weight, bias = (None if each is None else each.to(exact) for each in (weight, bias))
    y = F.group_norm(y, num_groups, weight, bias, eps)
    if scale is not None:
        y = y * (1 + scale.to(exact).view(per_channel))
    if shift is not None:
        y = y + shift.to(exact).view(per_channel)
    if silu:
        y = F.silu(y)
    if residual is not None:
        y = y + residual
    return y.to(x.dtype)
