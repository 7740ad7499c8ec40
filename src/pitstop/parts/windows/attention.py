"""Attention in windows (Swin, VRT, HAT, SwinIR): with a learned bias and masks of shifted windows.

Windows are small, 49 to 600 tokens, and many. To the scores of each head a bias is added that all
windows share, and, where the picture was rolled, a mask that depends on the window's position.

Why it is slow in plain PyTorch: scores of windows x heads x tokens x tokens are written and read
about ten times (product, bias, mask, softmax, product, and all of it backward), for heads so narrow
that the products are nothing beside that. ``scaled_dot_product_attention`` wants bias and mask as
one tensor of that size; where the bias is learned, its gradient is another, summed up later.

What is fused: all of it. Forward and backward are one kernel each that keeps scores on the chip. A
program owns one tile of the bias and walks over windows, so that the bias is read, and its gradient
summed, in registers. A mask is read by its window's position; windows whose mask is zero throughout
skip it. What is kept for the backward pass is the result and one number for each query.

Layout: the last axis in one piece, any strides elsewhere: the three parts of one ``qkv`` need no
copy. The result lies as windows x tokens x heads x width, so that heads are joined without one.
float32 products are rounded to TF32 where torch's are, and are split in three where not, which
keeps float32's precision. Halves accumulate in float32.

Floor: queries, keys, values and their gradients once, and their products; on an H200 at (144
windows, 6 heads, 384 tokens, 16 wide) 0.05 ms of bytes forward and backward in float32. The scores
themselves, one exponential each in both directions, take more than that.

Where the kernel does not run (CPU, float64, heads wider than 64, dropout in use, a mask of another
shape), or is slower, torch's fused attention or the twin does, whichever is fastest by a
measurement of some milliseconds for each new kind of call. Results and gradients are bitwise
reproducible on one path. Second derivatives and ``torch.func`` take the twin.
"""

import torch
from torch import nn

from pitstop.parts.record import is_transformed
from pitstop.parts.windows.operator import by_kernel
from pitstop.parts.windows.twin import Dropout, window_attention_twin
from pitstop.parts.windows.ways import Run, Scale, Way, by_sdpa, call_of, choose

Maybe = torch.Tensor | None
RUNS: dict[Way, Run] = {Way.KERNEL: by_kernel, Way.SDPA: by_sdpa, Way.TWIN: window_attention_twin}


def window_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe = None,
    mask: Maybe = None,
    scale: Scale = None,
    dropout: Dropout = 0.0,
) -> torch.Tensor:
    """Attend within windows: (windows, heads, tokens, width) each; ``bias`` is (heads, N, M).

    ``mask`` (positions, N, M) is added to the scores of window ``i`` at ``i % positions``. Dropout
    of the weights, a share or a module, is right but slow. ``scale`` is 1 / sqrt(width) if missing.
    """
    if not is_off(dropout):
        return window_attention_twin(query, key, value, bias, mask, scale, dropout)
    arguments = (query, key, value, bias, mask, scale)
    way = Way.TWIN if is_transformed() else choose(call_of(*arguments), RUNS)
    return RUNS[way](*arguments)


def is_off(dropout: Dropout) -> bool:
    """Whether dropout does nothing now."""
    if isinstance(dropout, nn.Dropout):
        return not (dropout.training and dropout.p)
    return isinstance(dropout, nn.Identity) or dropout == 0.0
