"""Attention of the middle block over a whole large picture, in bounded memory.

At 2048 x 2048 a latent has 65,536 pixels that all look at each other: 25 ms on an H200 as matrix
products. At 4096 x 4096 it would be 16 times that, more than all tiles together; so beyond
``MOST_KEYS`` the pixels looked at are averages of squares, while every pixel still looks. Softmax
over averages is not the average of softmax: the more alike neighbours are, the closer it is.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pitstop.parts.vae.functions import attend

MOST_KEYS = 65536  # 2048 x 2048 pixels at 8 per cell: exact up to there
SCORES = 1 << 25  # scores at a time: 200 MB in fp32 and half precision; twice that gains 6 %
SCORE_BYTES = 6 * SCORES
FEWEST_ROWS, PARTS = 64, 16  # of a small picture: its scores must not dwarf what grows with it


@contextmanager
def whole_picture(block: nn.Module) -> Iterator[None]:
    """Let diffusers' attentions in ``block`` take any number of pixels."""
    with ExitStack() as stack:
        for module in block.modules():
            if _fits(module):
                attention: Any = module
                old = attention.processor
                attention.processor = WholePicture(old)
                stack.callback(setattr, attention, "processor", old)
        yield


def _fits(module: Any) -> bool:
    """Whether this is plain self-attention of one head over the pixels of a picture."""
    return (
        isinstance(getattr(module, "to_q", None), nn.Linear)
        and isinstance(getattr(module, "group_norm", None), nn.GroupNorm)
        and getattr(module, "heads", 0) == 1
        and hasattr(module, "rescale_output_factor")
        and all(getattr(module, each, None) is None for each in ("spatial_norm", "norm_q"))
    )


class WholePicture:
    """diffusers' attention processor for one head over many pixels."""

    def __init__(self, old: Any) -> None:
        self.old = old

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: Any = None,  # diffusers passes only what it finds by name
        attention_mask: Any = None,
        temb: Any = None,
    ) -> Any:
        """Attend over all pixels; anything but plain self-attention goes to the old processor."""
        others = (encoder_hidden_states, attention_mask, temb)
        if any(each is not None for each in others) or hidden_states.dim() != 4:
            return self.old(attn, hidden_states, *others)
        normed = attn.group_norm(hidden_states)
        seen = averaged(normed).flatten(2).transpose(1, 2)
        key, value = attn.to_k(seen), attn.to_v(seen)
        query = attn.to_q(normed.flatten(2).transpose(1, 2))
        del normed, seen
        attend_in_place(query, key, value)
        del key, value
        h = attn.to_out[1](attn.to_out[0](query)).transpose(1, 2).view_as(hidden_states)
        del query
        if attn.residual_connection:
            h = hidden_states + h
        return h if attn.rescale_output_factor == 1 else h / attn.rescale_output_factor


def attend_in_place(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """Replace ``query`` (B, T, D) by its attention over ``key`` and ``value``, rows by rows."""
    most = max(FEWEST_ROWS, query.shape[1] // PARTS)
    for rows in query.split(max(1, min(SCORES // key.shape[1], most)), dim=1):
        rows.copy_(attend(rows, key, value))


def averaged(x: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) with squares of pixels averaged until at most ``MOST_KEYS`` are left."""
    side = 1
    while -(-x.shape[2] // side) * -(-x.shape[3] // side) > MOST_KEYS:
        side += 1
    return x if side == 1 else F.avg_pool2d(x, side, ceil_mode=True, count_include_pad=False)
