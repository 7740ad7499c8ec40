"""Triton kernels of GroupNorm + SiLU, backward: sums, merge, apply, as in the forward.

With z the normalised value and g the gradient before the activation, times the weight, the
gradient of x is ``scale * (g - mean(g) - z * mean(g * z))``, the means over the group.
"""

# Kernels take flat lists of pointers and numbers, compile-time constants in capitals, no types.
# ruff: noqa: N803, PLR0913, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

import triton
import triton.language as tl

from pitstop.parts.group_norm.kernels import per_channel, tile_of


@triton.jit
def _before_activation(x, grad, centre, scale, weight, bias, SILU: tl.constexpr):
    """The normalised value, and the gradient that arrives before the activation."""
    normal = (x - centre) * scale
    if SILU:
        z = normal * weight + bias
        gate = tl.sigmoid(z)
        grad *= gate * (1.0 + z * (1.0 - gate))
    return normal, grad


@triton.jit
def backward_sums_kernel(
    x,
    grad,
    weight,
    bias,
    statistics,
    partials,
    channels,
    length,
    chunk,
    affine_stride,
    stride_n,
    stride_s,
    stride_c,
    SILU: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sum the gradient, alone and times the normalised value, over (sample, chunk, channel)."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    start = part * chunk
    here = tl.minimum(chunk, length - start)
    base, tile = tile_of(stride_n, stride_s, stride_c, start, BLOCK_S, BLOCK_C)
    sample, samples = tl.program_id(2), tl.num_programs(2)
    place = tl.arange(0, BLOCK_S)[:, None]
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    real = channel < channels
    statistics += sample * channels + channel
    centre = tl.load(statistics, mask=real, other=0.0)[None, :]
    scale = tl.load(statistics + samples * channels, mask=real, other=0.0)[None, :]
    gain = per_channel(weight, sample * affine_stride + channel, real, 1.0, HAS_WEIGHT)[None, :]
    offset = per_channel(bias, sample * affine_stride + channel, real, 0.0, HAS_BIAS)[None, :]
    plain = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    along = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for step in tl.range(0, here, BLOCK_S, num_stages=STAGES):
        inside = real[None, :] & (step + place < here)
        where = base + step * stride_s + tile
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32)
        arriving = tl.load(grad + where, mask=inside, other=0.0).to(tl.float32)
        normal, arriving = _before_activation(value, arriving, centre, scale, gain, offset, SILU)
        plain += arriving
        along += tl.where(inside, arriving * normal, 0.0)
    row = (sample * parts + part) * channels + channel
    tl.store(partials + row, tl.sum(plain, 0), mask=real)
    tl.store(partials + samples * channels * parts + row, tl.sum(along, 0), mask=real)


@triton.jit
def finish_backward_kernel(
    partials,
    weight,
    grad_weight,
    grad_bias,
    means,
    affine_stride,
    parts,
    length,
    HAS_WEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
):
    """Add one group's parts: gradients of bias and weight, and the group's two means."""
    group, sample = tl.program_id(0), tl.program_id(1)
    all_channels = tl.num_programs(0) * WIDTH
    plane = tl.num_programs(1) * all_channels
    column, part = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_PARTS)
    channel, real = group * WIDTH + column, column < WIDTH
    row = (sample * parts + part)[:, None] * all_channels + channel[None, :]
    valid = (part < parts)[:, None] & real[None, :]
    plain = tl.sum(tl.load(partials + row, mask=valid, other=0.0), 0)
    along = tl.sum(tl.load(partials + plane * parts + row, mask=valid, other=0.0), 0)
    gain = per_channel(weight, sample * affine_stride + channel, real, 1.0, HAS_WEIGHT)
    total = 1.0 * WIDTH * length  # a length of 1 is a constant, which has no .to()
    mean_plain = tl.sum(tl.where(real, plain * gain, 0.0), 0) / total
    mean_along = tl.sum(tl.where(real, along * gain, 0.0), 0) / total
    place = sample * all_channels + channel
    tl.store(grad_weight + place, along, mask=real)
    tl.store(grad_bias + place, plain, mask=real)
    tl.store(means + place, tl.zeros([BLOCK_C], tl.float32) + mean_plain, mask=real)
    tl.store(means + plane + place, tl.zeros([BLOCK_C], tl.float32) + mean_along, mask=real)


@triton.jit
def backward_apply_kernel(
    x,
    grad,
    weight,
    bias,
    statistics,
    means,
    grad_x,
    channels,
    length,
    chunk,
    affine_stride,
    stride_n,
    stride_s,
    stride_c,
    SILU: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write the gradient of ``x`` for one chunk, the last chunks first."""
    start = (tl.num_programs(0) - 1 - tl.program_id(0)) * chunk
    here = tl.minimum(chunk, length - start)
    base, tile = tile_of(stride_n, stride_s, stride_c, start, BLOCK_S, BLOCK_C)
    sample, plane = tl.program_id(2), tl.num_programs(2) * channels
    place = tl.arange(0, BLOCK_S)[:, None]
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    real = channel < channels
    row = sample * channels + channel
    centre = tl.load(statistics + row, mask=real, other=0.0)
    scale = tl.load(statistics + plane + row, mask=real, other=0.0)
    mean_plain = tl.load(means + row, mask=real, other=0.0)
    mean_along = tl.load(means + plane + row, mask=real, other=0.0)
    gain = per_channel(weight, sample * affine_stride + channel, real, 1.0, HAS_WEIGHT)
    offset = per_channel(bias, sample * affine_stride + channel, real, 0.0, HAS_BIAS)
    for step in tl.range(0, here, BLOCK_S, num_stages=STAGES):
        inside = real & (step + place < here)
        where = base + step * stride_s + tile
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32)
        arriving = tl.load(grad + where, mask=inside, other=0.0).to(tl.float32)
        normal, arriving = _before_activation(value, arriving, centre, scale, gain, offset, SILU)
        value = scale * (arriving * gain - mean_plain - normal * mean_along)
        tl.store(grad_x + where, value, mask=inside)
