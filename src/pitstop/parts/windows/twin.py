"""Attention in windows in plain PyTorch: fallback, oracle and documentation."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

Maybe = torch.Tensor | None
Dropout = float | Callable[[torch.Tensor], torch.Tensor]


def window_attention_twin(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe = None,
    mask: Maybe = None,
    scale: float | torch.Tensor | None = None,
    dropout: Dropout = 0.0,
) -> torch.Tensor:
    """Scores, bias, mask of each window, softmax, dropout, values; each a tensor of its own."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if isinstance(scale, torch.Tensor):
        scores = query @ key.transpose(-2, -1) * scale
    else:
        scores = (query * scale) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = masked(scores, mask)
    weights: torch.Tensor = scores.softmax(-1)
    if callable(dropout):
        weights = dropout(weights)
    elif dropout:
        weights = F.dropout(weights, dropout)
    answer: torch.Tensor = weights.to(value.dtype) @ value
    return answer


def masked(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Add the mask of its position (P, N, M) to each window of (B, H, N, M), as Swin does it."""
    positions = mask.shape[0]
    by_position: torch.Tensor = scores.unflatten(0, (-1, positions))
    return (by_position + mask.unsqueeze(1)).flatten(0, 1)
