"""Triton kernels of the deformable separable convolution; the package has the essay.

One program owns ``BLOCK`` neighbouring pixels of one sample and walks over the F x F taps. The
five fields are read once, coalesced; the image is gathered through L1, where the 4 corners of
25 taps of neighbouring pixels mostly hit. Rows of taps are a run-time loop (short code for any
F), columns are unrolled, so that the F horizontal sums live in registers. Pixels past the end
read undefined fields, but every position is clamped into the image, so gathers need no mask.
"""

# Kernels take flat lists of pointers and numbers, compile-time constants in capitals, no types.
# ruff: noqa: N803, N806, PLR0913, PLR0915, PLR0917
# mypy: disable-error-code="assignment,misc,no-untyped-call,no-untyped-def,untyped-decorator"

from functools import lru_cache

import torch
import triton
import triton.language as tl

from pitstop.parts.launch import SIGNATURES, Launch

FORWARD_BLOCK, FORWARD_WARPS = 128, 4  # best of the sweep on an H200
BACKWARD_BLOCK, BACKWARD_WARPS = 128, 4
CHANNELS_AT_ONCE = 4  # most accumulators of one forward program; more channels, more programs
UNROLLED = tl.constexpr(4)  # channels of straight backward code; 16 took two minutes to compile

Shape = tuple[int, ...]
Types = tuple[torch.dtype, ...]
KEEP_NAN = tl.constexpr(tl.PropagateNan.ALL)


@triton.jit
def _neighbours(position, last):
    """The whole position below, the step to the one above, and the weights of both.

    Both are clamped to 0..last: past the border the step is 0 and both weights are 1, so that the
    border pixel counts twice, as in the original. A NaN position has the index 0, the weight NaN.
    """
    low = tl.floor(position)
    near = tl.minimum(tl.maximum(low, 0.0), last)
    inside = tl.minimum(tl.maximum(position, 0.0, KEEP_NAN), last, KEEP_NAN)
    between = (low >= 0.0) & (low < last)
    fraction = inside - near
    return near.to(tl.int32), between.to(tl.int32), 1.0 - fraction, tl.where(between, fraction, 1.0)


@triton.jit
def _corners(delta_y, delta_x, y, x, row, column, in_height, in_width, SIZE: tl.constexpr):
    """Indices of the four corners of one tap and the weights of its rows and columns.

    The sum is taken in the original's order, so that positions round to the same pixel.
    """
    HALF: tl.constexpr = (SIZE - 1) // 2
    position_y = delta_y.to(tl.float32) + y + row - HALF + 1.0
    position_x = delta_x.to(tl.float32) + x + column - HALF + 1.0
    top, step_y, above, below = _neighbours(position_y, in_height - 1.0)
    left, step_x, before, after = _neighbours(position_x, in_width - 1.0)
    upper = top * in_width + left
    lower = upper + step_y * in_width
    return upper, upper + step_x, lower, lower + step_x, above, below, before, after


@triton.jit
def _planes(pointer, pixel, pixels, valid, first, COUNT: tl.constexpr):
    """Load ``COUNT`` consecutive planes at once, so that their latencies overlap."""
    values = ()
    for index in tl.static_range(COUNT):
        values += (tl.load(pointer + (first + index) * pixels + pixel, mask=valid),)
    return values


@triton.jit
def forward_kernel(
    image,
    vertical,
    horizontal,
    offset_x,
    offset_y,
    mask,
    output,
    channels,
    in_height,
    in_width,
    height,
    width,
    SIZE: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write ``CHANNELS`` channels of ``BLOCK`` output pixels."""
    pixels, in_pixels = height * width, in_height * in_width
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(2) * CHANNELS
    valid = pixel < pixels
    y, x = (pixel // width).to(tl.float32), (pixel % width).to(tl.float32)
    image += (sample * channels + first) * in_pixels
    output += (sample * channels + first) * pixels
    vertical += sample * SIZE * pixels
    horizontal += sample * SIZE * pixels
    offset_x += sample * SIZE * SIZE * pixels
    offset_y += sample * SIZE * SIZE * pixels
    mask += sample * SIZE * SIZE * pixels
    sums = (tl.zeros([BLOCK], tl.float32),) * CHANNELS
    across = _planes(horizontal, pixel, pixels, valid, 0, SIZE)
    for row in range(SIZE):
        down = tl.load(vertical + row * pixels + pixel, mask=valid).to(tl.float32)
        for column in tl.static_range(SIZE):
            field = (row * SIZE + column) * pixels + pixel
            delta_y = tl.load(offset_x + field, mask=valid)
            delta_x = tl.load(offset_y + field, mask=valid)
            gate = tl.load(mask + field, mask=valid).to(tl.float32)
            top_left, top_right, bottom_left, bottom_right, above, below, before, after = _corners(
                delta_y, delta_x, y, x, row, column, in_height, in_width, SIZE
            )
            gate *= down * across[column].to(tl.float32)
            above, below = above * gate, below * gate
            new_sums = ()
            for channel in tl.static_range(CHANNELS):
                plane = image + channel * in_pixels
                total = sums[channel]
                total += tl.load(plane + top_left).to(tl.float32) * (above * before)
                total += tl.load(plane + top_right).to(tl.float32) * (above * after)
                total += tl.load(plane + bottom_left).to(tl.float32) * (below * before)
                total += tl.load(plane + bottom_right).to(tl.float32) * (below * after)
                new_sums += (total,)
            sums = new_sums
    for channel in tl.static_range(CHANNELS):
        tl.store(output + channel * pixels + pixel, sums[channel], mask=valid)


@triton.jit
def _one_channel(
    g,
    image,
    grad_image,
    corners,
    weights,
    valid,
    sums,
    NEEDS_IMAGE: tl.constexpr,
    NEEDS_FIELDS: tl.constexpr,
):
    """Per corner: sum the output gradient ``g`` times the pixel; add to the image's gradient."""
    top_left, top_right, bottom_left, bottom_right = corners
    if NEEDS_FIELDS:
        a, b, c, d = sums
        a += g * tl.load(image + top_left).to(tl.float32)
        b += g * tl.load(image + top_right).to(tl.float32)
        c += g * tl.load(image + bottom_left).to(tl.float32)
        d += g * tl.load(image + bottom_right).to(tl.float32)
        sums = (a, b, c, d)
    if NEEDS_IMAGE:
        above, below, before, after = weights
        up, low = g * above, g * below
        tl.atomic_add(grad_image + top_left, up * before, mask=valid, sem="relaxed")
        tl.atomic_add(grad_image + top_right, up * after, mask=valid, sem="relaxed")
        tl.atomic_add(grad_image + bottom_left, low * before, mask=valid, sem="relaxed")
        tl.atomic_add(grad_image + bottom_right, low * after, mask=valid, sem="relaxed")
    return sums


@triton.jit
def backward_kernel(
    grad_output,
    image,
    vertical,
    horizontal,
    offset_x,
    offset_y,
    mask,
    grad_image,
    grad_vertical,
    grad_horizontal,
    grad_offset_x,
    grad_offset_y,
    grad_mask,
    in_height,
    in_width,
    height,
    width,
    SIZE: tl.constexpr,
    CHANNELS: tl.constexpr,
    NEEDS_IMAGE: tl.constexpr,
    NEEDS_FIELDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradients of all fields for ``BLOCK`` pixels; add the image's atomically."""
    pixels, in_pixels = height * width, in_height * in_width
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sample = tl.program_id(1).to(tl.int64)
    valid = pixel < pixels
    y, x = (pixel // width).to(tl.float32), (pixel % width).to(tl.float32)
    grad_output += sample * CHANNELS * pixels
    image += sample * CHANNELS * in_pixels
    grad_image += sample * CHANNELS * in_pixels
    vertical += sample * SIZE * pixels
    grad_vertical += sample * SIZE * pixels
    horizontal += sample * SIZE * pixels
    grad_horizontal += sample * SIZE * pixels
    offset_x += sample * SIZE * SIZE * pixels
    grad_offset_x += sample * SIZE * SIZE * pixels
    offset_y += sample * SIZE * SIZE * pixels
    grad_offset_y += sample * SIZE * SIZE * pixels
    mask += sample * SIZE * SIZE * pixels
    grad_mask += sample * SIZE * SIZE * pixels
    KEPT: tl.constexpr = CHANNELS if CHANNELS <= UNROLLED else 0
    grads = _planes(grad_output, pixel, pixels, valid, 0, KEPT)
    across = _planes(horizontal, pixel, pixels, valid, 0, SIZE)
    sums_across = (tl.zeros([BLOCK], tl.float32),) * SIZE
    for row in range(SIZE):
        down = tl.load(vertical + row * pixels + pixel, mask=valid).to(tl.float32)
        sum_down = tl.zeros([BLOCK], tl.float32)
        new_sums_across = ()
        deltas_y = _planes(offset_x, pixel, pixels, valid, row * SIZE, SIZE)
        deltas_x = _planes(offset_y, pixel, pixels, valid, row * SIZE, SIZE)
        gates = _planes(mask, pixel, pixels, valid, row * SIZE, SIZE)
        for column in tl.static_range(SIZE):
            field = (row * SIZE + column) * pixels + pixel
            gate = gates[column].to(tl.float32)
            top_left, top_right, bottom_left, bottom_right, above, below, before, after = _corners(
                deltas_y[column], deltas_x[column], y, x, row, column, in_height, in_width, SIZE
            )
            h = across[column].to(tl.float32)
            kernel = down * h
            weight = kernel * gate
            corners = (top_left, top_right, bottom_left, bottom_right)
            weights = (weight * above, weight * below, before, after)
            sums = (tl.zeros([BLOCK], tl.float32),) * 4
            if CHANNELS <= UNROLLED:
                for channel in tl.static_range(CHANNELS):
                    g, plane = grads[channel].to(tl.float32), channel * in_pixels
                    sums = _one_channel(
                        *(g, image + plane, grad_image + plane, corners, weights, valid, sums),
                        *(NEEDS_IMAGE, NEEDS_FIELDS),
                    )
            else:
                for channel in range(CHANNELS):
                    g = tl.load(grad_output + channel * pixels + pixel, mask=valid).to(tl.float32)
                    plane = channel * in_pixels
                    sums = _one_channel(
                        *(g, image + plane, grad_image + plane, corners, weights, valid, sums),
                        *(NEEDS_IMAGE, NEEDS_FIELDS),
                    )
            a, b, c, d = sums
            upper, lower = a * before + b * after, c * before + d * after
            sample_grad = above * upper + below * lower
            if NEEDS_FIELDS:
                slope_x = above * (b - a) + below * (d - c)
                tl.store(grad_offset_x + field, (lower - upper) * weight, mask=valid)
                tl.store(grad_offset_y + field, slope_x * weight, mask=valid)
                tl.store(grad_mask + field, sample_grad * kernel, mask=valid)
            sample_grad *= gate
            sum_down += sample_grad * h
            new_sums_across += (sums_across[column] + sample_grad * down,)
        sums_across = new_sums_across
        if NEEDS_FIELDS:
            tl.store(grad_vertical + row * pixels + pixel, sum_down, mask=valid)
    if NEEDS_FIELDS:
        for column in tl.static_range(SIZE):
            tl.store(grad_horizontal + column * pixels + pixel, sums_across[column], mask=valid)


def forward_launch(image: Shape, vertical: Shape, device: int) -> Launch:
    """The launch that fills an output; all tensors contiguous."""
    samples, channels, in_height, in_width = image
    size, height, width = vertical[1:]
    at_once = max(each for each in range(1, CHANNELS_AT_ONCE + 1) if channels % each == 0)
    numbers = (channels, in_height, in_width, height, width, size, at_once, FORWARD_BLOCK)
    grid = (-(-height * width // FORWARD_BLOCK), samples, channels // at_once)
    return Launch(forward_kernel, grid, FORWARD_WARPS, device, numbers)


@lru_cache(maxsize=SIGNATURES)
def backward_launch(
    image: Shape,
    vertical: Shape,
    device: int,
    needs: tuple[bool, bool],
    types: Types,  # noqa: ARG001 (tells signatures apart)
) -> Launch:
    """The launch that fills the gradients of the image (float32, zeroed before) and the fields."""
    samples, channels, in_height, in_width = image
    size, height, width = vertical[1:]
    numbers = (in_height, in_width, height, width, size, channels, *needs, BACKWARD_BLOCK)
    grid = (-(-height * width // BACKWARD_BLOCK), samples, 1)
    return Launch(backward_kernel, grid, BACKWARD_WARPS, device, numbers)
