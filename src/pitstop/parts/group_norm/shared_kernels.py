"""Triton kernel of a norm whose statistics are known: one read, one write, SiLU on the way."""

# Kernels take flat lists of pointers and numbers, compile-time constants in capitals, no types.
# ruff: noqa: N803, PLR0913, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def affine_kernel(
    x,
    gain,
    offset,
    y,
    channels,
    length,
    chunk,
    repeats,
    stride_n,
    stride_s,
    stride_c,
    SILU: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Write ``x * gain + offset``; sample n takes the gain and offset n modulo ``repeats``."""
    start = tl.program_id(0) * chunk
    here = tl.minimum(chunk, length - start)
    place = tl.arange(0, BLOCK_S)[:, None]
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    real = channel < channels
    sample = tl.program_id(2)
    base = sample.to(tl.int64) * stride_n + start.to(tl.int64) * stride_s
    tile = channel.to(tl.int64) * stride_c + place * stride_s
    row = (sample % repeats) * channels + channel
    factor = tl.load(gain + row, mask=real, other=0.0)
    moved = tl.load(offset + row, mask=real, other=0.0)
    for step in range(0, here, BLOCK_S):
        inside = real & (step + place < here)
        where = base + step * stride_s + tile
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32) * factor + moved
        if SILU:
            value *= tl.sigmoid(value)
        tl.store(y + where, value, mask=inside)
