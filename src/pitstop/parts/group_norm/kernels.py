"""Triton kernels of GroupNorm + SiLU, forward; ``group_norm_silu.py`` has the essay.

Every kernel sees a tensor as samples x positions x channels with three strides, so one source
serves both layouts: a program owns a chunk of positions of ``BLOCK_C`` channels and walks over it
in tiles. Channels-first takes one channel (a plane) per program, channels-last a row of channels.
"""

# Kernels take flat lists of pointers and numbers, compile-time constants in capitals, no types.
# ruff: noqa: N803, PLR0913, PLR0917
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def tile_of(stride_n, stride_s, stride_c, start, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr):
    """Offset of this program's first element (64 bits) and of its tile (32 bits)."""
    sample, first = tl.program_id(2).to(tl.int64), tl.program_id(1).to(tl.int64) * BLOCK_C
    base = sample * stride_n + first * stride_c + start.to(tl.int64) * stride_s
    place, column = tl.arange(0, BLOCK_S)[:, None], tl.arange(0, BLOCK_C)[None, :]
    return base, place * stride_s + column * stride_c


@triton.jit
def statistics_kernel(
    x,
    partials,
    channels,
    length,
    chunk,
    stride_n,
    stride_s,
    stride_c,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write mean and squared deviation of every (sample, chunk, channel).

    Differences to a first value are summed: the lane's own for a plane, the channel's for rows. It
    is one of the n samples, so the squares cancel at most n + 1 fold, whatever the data's mean.
    """
    part, parts = tl.program_id(0), tl.num_programs(0)
    start = part * chunk
    here = tl.minimum(chunk, length - start)
    base, tile = tile_of(stride_n, stride_s, stride_c, start, BLOCK_S, BLOCK_C)
    x += base
    place = tl.arange(0, BLOCK_S)[:, None]
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    real = (channel < channels)[None, :]
    if BLOCK_C == 1:
        shift = tl.load(x + tile, mask=real & (place < here), other=0.0).to(tl.float32)
    else:
        first_row = tl.arange(0, BLOCK_C)[None, :] * stride_c
        shift = tl.load(x + first_row, mask=real, other=0.0).to(tl.float32)
    sums = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    squares = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for step in tl.range(0, here, BLOCK_S, num_stages=STAGES):
        inside = real & (step + place < here)
        value = tl.load(x + step * stride_s + tile, mask=inside, other=0.0).to(tl.float32)
        value = tl.where(inside, value - shift, 0.0)
        sums += value
        squares += value * value
    count = tl.maximum((here - place + BLOCK_S - 1) // BLOCK_S, 0).to(tl.float32)
    lane_mean = sums / tl.maximum(count, 1.0)
    squares -= sums * lane_mean
    lane_mean += shift
    mean = tl.sum(lane_mean * count, 0) / here
    distance = lane_mean - mean[None, :]
    deviation = tl.sum(squares + count * distance * distance, 0)
    row = (tl.program_id(2) * parts + part) * channels + channel
    tl.store(partials + row, mean, mask=channel < channels)
    partials += tl.num_programs(2) * channels * parts
    tl.store(partials + row, deviation, mask=channel < channels)


@triton.jit
def finish_statistics_kernel(
    partials,
    channel_bias,
    statistics,
    parts,
    length,
    chunk,
    eps,
    HAS_CHANNEL_BIAS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
):
    """Merge one group's parts; write its centre and reciprocal deviation for every channel.

    A bias per channel only moves the channel's mean, so it enters here and costs no pass.
    """
    group, sample = tl.program_id(0), tl.program_id(1)
    all_channels = tl.num_programs(0) * WIDTH
    column, part = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_PARTS)
    channel = group * WIDTH + column
    real = (part < parts)[:, None] & (column < WIDTH)[None, :]
    row = (sample * parts + part)[:, None] * all_channels + channel[None, :]
    mean = tl.load(partials + row, mask=real, other=0.0)
    partials += tl.num_programs(1) * all_channels * parts
    deviation = tl.load(partials + row, mask=real, other=0.0)
    bias = tl.zeros([BLOCK_C], tl.float32)
    if HAS_CHANNEL_BIAS:
        bias = tl.load(channel_bias + channel, mask=column < WIDTH, other=0.0).to(tl.float32)
        mean += bias[None, :]
    count = tl.minimum(chunk, length - part * chunk).to(tl.float32)[:, None]
    count = tl.where(real, count, 0.0)
    total = 1.0 * WIDTH * length  # a length of 1 is a constant, which has no .to()
    centre = tl.sum(mean * count) / total
    distance = mean - centre
    deviation = tl.sum(deviation + count * distance * distance)
    scale = tl.zeros([BLOCK_C], tl.float32) + 1.0 / tl.sqrt_rn(deviation / total + eps)
    statistics += sample * all_channels + channel
    tl.store(statistics, centre - bias, mask=column < WIDTH)
    statistics += tl.num_programs(1) * all_channels
    tl.store(statistics, scale, mask=column < WIDTH)


@triton.jit
def whole_group_kernel(  # noqa: PLR0915 (three passes in one)
    x,
    residual,
    weight,
    bias,
    channel_bias,
    statistics,
    y,
    length,
    affine_stride,
    stride_n,
    stride_s,
    stride_c,
    eps,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    SILU: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_CHANNEL_BIAS: tl.constexpr,
    KEEP: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """All of a small group by one program and one launch: mean, deviation, result.

    It reads the group three times, the last two from caches. All is seen from its first value, so
    that a mean far from zero costs no digits.
    """
    sample, group = tl.program_id(1).to(tl.int64), tl.program_id(0)
    base = sample * stride_n + (group * WIDTH).to(tl.int64) * stride_c
    affine, total = sample * affine_stride, WIDTH * length
    lane = tl.arange(0, BLOCK)
    shift = tl.load(x + base).to(tl.float32)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, total, BLOCK):
        where, channel, real = element_of(start + lane, length, stride_s, stride_c, WIDTH, ROWS)
        value = tl.load(x + base + where, mask=real, other=0.0).to(tl.float32) - shift
        if HAS_CHANNEL_BIAS:
            value += tl.load(channel_bias + group * WIDTH + channel, mask=real, other=0.0)
        sums += tl.where(real, value, 0.0)
    mean = tl.sum(sums, 0) / total
    squares = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, total, BLOCK):
        where, channel, real = element_of(start + lane, length, stride_s, stride_c, WIDTH, ROWS)
        value = tl.load(x + base + where, mask=real, other=0.0).to(tl.float32) - shift
        if HAS_CHANNEL_BIAS:
            value += tl.load(channel_bias + group * WIDTH + channel, mask=real, other=0.0)
        value = tl.where(real, value - mean, 0.0)
        squares += value * value
    scale = 1.0 / tl.sqrt_rn(tl.sum(squares, 0) / total + eps)
    for start in tl.range(0, total, BLOCK):
        where, channel, real = element_of(start + lane, length, stride_s, stride_c, WIDTH, ROWS)
        value = tl.load(x + base + where, mask=real, other=0.0).to(tl.float32) - shift
        channel += group * WIDTH
        if HAS_CHANNEL_BIAS:
            value += tl.load(channel_bias + channel, mask=real, other=0.0)
        value = (
            (value - mean) * scale * per_channel(weight, affine + channel, real, 1.0, HAS_WEIGHT)
        )
        value += per_channel(bias, affine + channel, real, 0.0, HAS_BIAS)
        if SILU:
            value *= tl.sigmoid(value)
        if HAS_RESIDUAL:
            value += tl.load(residual + base + where, mask=real, other=0.0).to(tl.float32)
        tl.store(y + base + where, value, mask=real)
    if KEEP:
        column = tl.arange(0, BLOCK_C)
        moved = per_channel(
            channel_bias, group * WIDTH + column, column < WIDTH, 0.0, HAS_CHANNEL_BIAS
        )
        all_channels = tl.num_programs(0) * WIDTH
        statistics += sample * all_channels + group * WIDTH + column
        tl.store(statistics, shift + mean - moved, mask=column < WIDTH)
        statistics += tl.num_programs(1) * all_channels
        tl.store(statistics, tl.zeros([BLOCK_C], tl.float32) + scale, mask=column < WIDTH)


@triton.jit
def element_of(index, length, stride_s, stride_c, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Offset of a group's elements in the order of memory, their channel, whether they exist."""
    if ROWS:
        place, channel = index // WIDTH, index % WIDTH
    else:
        place, channel = index % length, index // length
    return place * stride_s + channel * stride_c, channel, index < WIDTH * length


@triton.jit
def per_channel(pointer, offset, real, other, GIVEN: tl.constexpr):
    """One value per channel, or the constant ``other`` where the argument was not given."""
    value = tl.zeros(offset.shape, tl.float32) + other
    if GIVEN:
        value = tl.load(pointer + offset, mask=real, other=0.0).to(tl.float32)
    return value


@triton.jit
def apply_kernel(
    x,
    residual,
    weight,
    bias,
    statistics,
    y,
    channels,
    length,
    chunk,
    affine_stride,
    stride_n,
    stride_s,
    stride_c,
    SILU: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Normalise one chunk; the last chunks first, since the statistics pass left them in L2."""
    start = (tl.num_programs(0) - 1 - tl.program_id(0)) * chunk
    here = tl.minimum(chunk, length - start)
    base, tile = tile_of(stride_n, stride_s, stride_c, start, BLOCK_S, BLOCK_C)
    sample, samples = tl.program_id(2), tl.num_programs(2)
    place = tl.arange(0, BLOCK_S)[:, None]
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    real = channel < channels
    statistics += sample * channels + channel
    centre = tl.load(statistics, mask=real, other=0.0)
    gain = tl.load(statistics + samples * channels, mask=real, other=0.0)
    gain *= per_channel(weight, sample * affine_stride + channel, real, 1.0, HAS_WEIGHT)
    offset = per_channel(bias, sample * affine_stride + channel, real, 0.0, HAS_BIAS)
    for step in tl.range(0, here, BLOCK_S, num_stages=STAGES):
        inside = real & (step + place < here)
        where = base + step * stride_s + tile
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32)
        value = (value - centre) * gain + offset
        if SILU:
            value *= tl.sigmoid(value)
        if HAS_RESIDUAL:
            value += tl.load(residual + where, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + where, value, mask=inside)
