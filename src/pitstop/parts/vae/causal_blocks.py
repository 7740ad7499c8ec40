"""Fast blocks of a causal video VAE: channels-last, one pass for norm, SiLU and padding.

Stock code copies a clip three times around each convolution: frame by frame for the norm, once
more to put the past in front of it, once more to add the bias. Here the norm writes its result
straight behind the past, biases wait for the next pass that is there anyway, and upsampling
shuffles its channels into the padded clip in one copy. cuDNN's channels-last kernels then reach 650
to 790 TFLOP/s on an H200 in bf16, 1.2 to 1.4 times those of the stock layout.

A block is recognised by what it holds and tried on a random input; it is exchanged only if old and
new agree. The past is a copy of the frames that are needed, not a view that keeps the clip alive.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pitstop.parts.group_norm.fuse_group_norm import (
    PROBE_TOLERANCE,
    Undo,
    probe,
    subclass,
    swap_class,
)
from pitstop.parts.group_norm.shared_norms import take_part
from pitstop.parts.vae.functions import HALF_TYPES, add_biases
from pitstop.parts.vae.middle_attention import attend_in_place

LAYOUT = torch.channels_last_3d
PLAIN = torch.contiguous_format  # on the CPU, where 3-D convolutions know no other layout
PROBE_CLIP = (3, 8, 8)  # frames, height, width: only to tell one function from another
Fill = Callable[[torch.Tensor], None]
Forward = Callable[..., torch.Tensor]


def accelerate_causal(vae: nn.Module) -> Undo:
    """Exchange every causal block of ``vae`` that fits, in place; call the result to undo it."""
    exchanged: list[Callable[[], None]] = []
    pairs = (
        (_convolution, convolve),
        (_residual, add_residual),
        (_upsample, grow),
        (_attention, look_around),
    )
    for fits, forward in pairs:
        for block in [each for each in vae.modules() if fits(each)]:
            kind: Any = type(block)
            old = kind.forward
            undo = take_part([block])
            if "forward" not in vars(block) and _agree(block, old, forward):
                exchanged += [undo, swap_class(block, subclass(kind, forward))]
            else:
                undo()
    if not exchanged:
        return Undo(())
    undo = take_part([vae])
    return Undo((*exchanged, undo, _lay_out(vae)))


def _agree(block: nn.Module, old: Forward, new: Forward) -> bool:
    """Whether old and new give the same for a random clip, in the block's own precision."""
    weight = next(block.parameters())
    if weight.is_meta:
        return False
    channels = weight.shape[0] if weight.dim() == 1 else weight.shape[1]
    x = probe((1, channels, *PROBE_CLIP), weight)
    try:
        with torch.no_grad():
            expected, found = old(block, x), new(block, x)
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return False
    error = (found - expected).norm() / expected.norm().clamp_min(1e-12)
    return bool(error <= PROBE_TOLERANCE)


def _lay_out(vae: nn.Module) -> Callable[[], None]:
    weights = [each for each in vae.parameters() if each.dim() == 5 and each.is_cuda]
    changed = [each for each in weights if each.is_contiguous()]
    for each in changed:
        each.data = each.data.contiguous(memory_format=LAYOUT)

    def back() -> None:
        for each in changed:
            each.data = each.data.contiguous()

    return back


def _convolution(block: Any) -> bool:
    """A convolution that keeps its last frames."""
    return isinstance(block, nn.Conv3d) and hasattr(block, "phase") and hasattr(block, "memory")


def _residual(block: Any) -> bool:
    """Norm and convolution, twice, beside a shortcut."""
    norms = [getattr(block, name, None) for name in ("norm1", "norm2")]
    convolutions = [getattr(block, name, None) for name in ("conv1", "conv2")]
    return (
        all(isinstance(each, nn.GroupNorm) for each in norms)
        and all(_convolution(each) for each in convolutions)
        and isinstance(getattr(block, "shortcut", None), nn.Module)
    )


def _upsample(block: Any) -> bool:
    """A 1 x 1 convolution whose channels are shuffled into space and time, then a causal one."""
    return (
        isinstance(getattr(block, "spread", None), nn.Conv3d)
        and _convolution(getattr(block, "conv", None))
        and hasattr(block, "in_time")
        and hasattr(block, "phase")
    )


def _attention(block: Any) -> bool:
    """Attention of one head over the pixels of each frame."""
    names = ("to_query", "to_key", "to_value", "to_out")
    return isinstance(getattr(block, "norm", None), nn.GroupNorm) and all(
        isinstance(getattr(block, name, None), nn.Linear) for name in names
    )


def look_around(self: Any, x: torch.Tensor) -> torch.Tensor:
    """``x`` and what the pixels of a frame learn from each other; scores in bounded memory."""
    pixels = self.norm(x).permute(0, 2, 3, 4, 1)  # (B, T, H, W, C)
    shape, tokens = pixels.shape, pixels.flatten(2, 3).flatten(0, 1)  # (B * T, H * W, C)
    query, key, value = self.to_query(tokens), self.to_key(tokens), self.to_value(tokens)
    del pixels, tokens
    attend_in_place(query, key, value)
    del key, value
    learned: torch.Tensor = self.to_out(query).view(shape)
    return x + learned.permute(0, 4, 1, 2, 3)


def convolve(self: Any, x: torch.Tensor) -> torch.Tensor:
    """The convolution alone: padded by what came before, its bias in one pass."""
    y = _convolved(self, x.shape, x, _copied(x))
    return add_biases(y, None, self.bias, None)


def add_residual(self: Any, x: torch.Tensor) -> torch.Tensor:
    """``x`` and what two norms and convolutions add to it; biases wait for the next pass."""
    y = _convolved(self.conv1, x.shape, x, _normed(self.norm1, x, None))
    h = y
    y = _convolved(self.conv2, h.shape, h, _normed(self.norm2, h, self.conv1.bias))
    del h
    shortcut, bias = self.shortcut, None
    if _convolution(shortcut) and shortcut.kernel_size == (1, 1, 1):
        x, bias = _product(shortcut, x, shortcut.weight), shortcut.bias
    else:
        x = shortcut(x)
    return add_biases(y, x, self.conv2.bias, bias)


def grow(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Spread channels over space and time, then convolve."""
    batch, channels, frames, height, width = x.shape
    time = 2 if self.in_time else 1
    first = self.in_time and self.phase.name != "NEXT"
    weight = self.spread.weight.flatten(1)
    spread = F.linear(x.permute(0, 2, 3, 4, 1), weight, self.spread.bias)
    spread = spread.view(batch, frames, height, width, 2, 2, time, channels)
    spread = spread.permute(0, 1, 6, 2, 4, 3, 5, 7)  # (B, T, time, H, 2, W, 2, C)

    def fill(place: torch.Tensor) -> None:
        pixels = place.permute(0, 2, 3, 4, 1)  # (B, T, H, W, C), contiguous but for the batch
        if not first:
            pixels.unflatten(1, (frames, time)).unflatten(3, (height, 2)).unflatten(
                5, (width, 2)
            ).copy_(spread)
            return
        pixels[:, :1].copy_(spread[:, :1, 0].reshape(batch, 1, 2 * height, 2 * width, channels))
        later = pixels[:, 1:].unflatten(1, (frames - 1, time)).unflatten(3, (height, 2))
        later.unflatten(5, (width, 2)).copy_(spread[:, 1:])

    shape = (batch, channels, frames * time - first, 2 * height, 2 * width)
    y = _convolved(self.conv, shape, x, fill)
    return add_biases(y, None, self.conv.bias, None)


def _copied(x: torch.Tensor) -> Fill:
    def fill(place: torch.Tensor) -> None:
        place.copy_(x)

    return fill


def _normed(norm: Any, x: torch.Tensor, bias: torch.Tensor | None) -> Fill:
    """Norm, SiLU and the move behind the past, in one pass where frames lie one after another."""

    def fill(place: torch.Tensor) -> None:
        if x.shape[0] == 1 and x.is_contiguous(memory_format=LAYOUT):
            norm.with_silu(x, bias, place.transpose(1, 2).flatten(0, 1))
        else:
            place.copy_(norm.with_silu(x, bias))

    return fill


def _convolved(layer: Any, shape: tuple[int, ...], like: torch.Tensor, fill: Fill) -> torch.Tensor:
    """The convolution, without its bias, of what ``fill`` writes behind the frames before it."""
    batch, channels, frames, height, width = shape
    past = layer.memory if layer.phase.name == "NEXT" else None
    before = layer.kernel_size[0] - 1 if past is None else past.shape[2]
    size = (batch, channels, frames + before, height, width)
    layout = LAYOUT if like.is_cuda else PLAIN
    clip = torch.empty(size, dtype=like.dtype, device=like.device, memory_format=layout)
    fill(clip[:, :, before:])
    if before:
        clip[:, :, :before] = clip[:, :, before : before + 1] if past is None else past
    kept = layer.kernel_size[0] - layer.stride[0]
    if layer.phase.name != "WHOLE" and kept > 0:
        layer.memory = clip[:, :, -kept:].clone(memory_format=layout)
    return _product(layer, clip, layer.weight)


def _product(layer: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The bare convolution; by name on a GPU, where the dispatcher would take three times as much.

    (torch 2.9 and later, half precision, 3-D.)
    """
    options = (layer.padding, layer.stride, layer.dilation)
    if x.is_cuda and x.dtype in HALF_TYPES and torch.backends.cudnn.is_available():
        answer: torch.Tensor = torch.cudnn_convolution(
            *(x, weight, *options, layer.groups),
            benchmark=False,
            deterministic=False,
            allow_tf32=True,
        )
        return answer
    stride, padding = layer.stride, layer.padding
    return F.conv3d(x, weight, None, stride, padding, layer.dilation, layer.groups)
