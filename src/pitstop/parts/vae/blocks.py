"""Fast classes for the blocks that VAEs are built of, and how an old block is recognised.

A block is recognised by what it holds (``norm1 conv1 norm2 conv2`` is a residual block in
diffusers and in latent-diffusion alike), then tried: old and new ``forward`` run once on a small
random input, and the block is left alone unless they agree. So a block that looks the same and
computes something else is never changed.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.group_norm.fuse_group_norm import (
    PROBE_TOLERANCE,
    FusedGroupNorm,
    is_plain,
    probe,
)
from pitstop.parts.vae.functions import FLASH_HEAD, add_biases, attend, fold_upsample

PROBE_SIDE = 8  # pixels; the probe only has to tell one function from another
Forward = Callable[..., torch.Tensor]


def _without_bias(convolution: nn.Module, x: torch.Tensor) -> torch.Tensor:
    answer: torch.Tensor = internals.convolved(convolution, x, None)
    return answer


def residual_forward(old: Forward) -> Forward:
    """Norm, convolution, norm, convolution, sum; every bias folded into a pass that is there."""

    def forward(self: Any, x: torch.Tensor, temb: Any = None, *rest: Any, **more: Any) -> Any:
        if temb is not None or rest or more:
            return old(self, x, temb, *rest, **more)
        h = _without_bias(self.conv1, self.norm1.with_silu(x))
        h = self.dropout(self.norm2.with_silu(h, self.conv1.bias))
        h = _without_bias(self.conv2, h)
        shortcut = getattr(self, "conv_shortcut", None) or getattr(self, "nin_shortcut", None)
        shortcut_bias = None
        if shortcut is not None:
            x, shortcut_bias = _without_bias(shortcut, x), shortcut.bias
        scale = 1.0 / getattr(self, "output_scale_factor", 1.0)
        return add_biases(h, x, self.conv2.bias, shortcut_bias, scale)

    return forward


def upsample_forward(old: Forward) -> Forward:
    """Nearest doubling and a 3 x 3 convolution as one transposed convolution."""

    def forward(self: Any, x: torch.Tensor, *rest: Any, **more: Any) -> Any:
        if any(each is not None for each in (*rest, *more.values())):  # another output size
            return old(self, x, *rest, **more)
        y = torch.conv_transpose2d(x, _folded(self), stride=2, padding=1)
        return add_biases(y, None, self.conv.bias, None)

    return forward


def _folded(block: Any) -> torch.Tensor:
    """The folded kernel, kept until the weight changes."""
    weight = block.conv.weight
    layout = torch.channels_last
    recorded = torch.is_grad_enabled() and weight.requires_grad
    if recorded or torch.compiler.is_compiling() or weight.is_inference():
        return fold_upsample(weight).to(memory_format=layout)
    version = (weight.data_ptr(), internals.version(weight), weight.dtype)
    kept = vars(block).get("_pitstop_folded")
    if kept is None or kept[0] != version:
        kept = (version, fold_upsample(weight.detach()).to(memory_format=layout))
        vars(block)["_pitstop_folded"] = kept
    folded: torch.Tensor = kept[1]
    return folded


def attention_forward(old: Forward) -> Forward:
    """Latent-diffusion's attention: one head over all pixels, 1 x 1 convolutions around it."""

    def forward(self: Any, x: torch.Tensor, *rest: Any, **more: Any) -> Any:
        if any(each is not None for each in (*rest, *more.values())):
            return old(self, x, *rest, **more)
        h = self.norm(x)
        query, key, value = (
            each(h).flatten(2).transpose(1, 2).contiguous() for each in (self.q, self.k, self.v)
        )
        h = attend(query, key, value).transpose(1, 2).view_as(x)
        h = _without_bias(self.proj_out, h)
        return add_biases(h, x, self.proj_out.bias, None)

    return forward


class WideHeadProcessor:
    """diffusers' attention processor for one head too wide for flash attention."""

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
        tokens = attn.group_norm(hidden_states).flatten(2).transpose(1, 2)
        heads = attend(attn.to_q(tokens), attn.to_k(tokens), attn.to_v(tokens))
        heads = attn.to_out[1](attn.to_out[0](heads))
        h = heads.transpose(1, 2).view_as(hidden_states)
        if attn.residual_connection:
            h = h + hidden_states
        return h / attn.rescale_output_factor


def residual_block(block: nn.Module) -> bool:
    """Whether ``block`` holds what a residual block of a VAE holds."""
    norms = [getattr(block, name, None) for name in ("norm1", "norm2")]
    shortcuts = [getattr(block, name, None) for name in ("conv_shortcut", "nin_shortcut")]
    convolutions = [getattr(block, name, None) for name in ("conv1", "conv2")]
    convolutions += [each for each in shortcuts if each is not None]
    return (
        all(isinstance(each, FusedGroupNorm) and is_plain(each) for each in norms)
        and all(_is_convolution(each) for each in convolutions)
        and isinstance(getattr(block, "dropout", None), nn.Dropout)
        and getattr(block, "upsample", None) is None
        and getattr(block, "downsample", None) is None
    )


def upsample_block(block: nn.Module) -> bool:
    """Whether ``block`` is an upsampler with one 3 x 3 convolution and nothing else."""
    convolution: Any = getattr(block, "conv", None)
    return (
        "upsample" in type(block).__name__.lower()
        and [type(child) for child in block.children()] == [nn.Conv2d]
        and _is_convolution(convolution)
        and convolution.kernel_size == (3, 3)
        and convolution.padding == (1, 1)
        and convolution.padding_mode == "zeros"
    )


def attention_block(block: nn.Module) -> bool:
    """Whether ``block`` is latent-diffusion's attention: one head, written as two products."""
    parts: list[Any] = [getattr(block, name, None) for name in ("q", "k", "v", "proj_out")]
    return isinstance(getattr(block, "norm", None), FusedGroupNorm) and all(
        _is_convolution(each) and each.kernel_size == (1, 1) for each in parts
    )


def wide_head(block: nn.Module) -> bool:
    """Whether ``block`` is a diffusers attention of one head wider than flash attention allows."""
    query = getattr(block, "to_q", None)
    return (
        hasattr(block, "set_processor")
        and isinstance(query, nn.Linear)
        and getattr(block, "heads", 0) == 1
        and query.out_features > FLASH_HEAD
        and isinstance(getattr(block, "group_norm", None), FusedGroupNorm)
        and all(getattr(block, each, None) is None for each in ("spatial_norm", "norm_q", "norm_k"))
        and type(getattr(block, "processor", None)).__name__
        in ("AttnProcessor", "AttnProcessor2_0")
    )


def _is_convolution(module: Any) -> bool:
    plain = type(module) in (nn.Conv2d, nn.Conv3d) and is_plain(module)
    return plain and module.stride == (1,) * len(module.stride)


def agree(block: nn.Module, old: Forward, new: Forward) -> bool:
    """Whether old and new give the same on a random input, in the block's own precision."""
    weight = next(block.parameters())
    if weight.is_meta:
        return False
    channels = weight.shape[0] if weight.dim() == 1 else weight.shape[1]
    dimensions = max(each.dim() for each in block.parameters()) - 2
    shape = (1, channels, *[PROBE_SIDE] * dimensions)
    x = probe(shape, weight)
    training = block.training
    block.eval()  # a dropout would differ
    try:
        with torch.no_grad():
            expected = _call(old, block, x)
            found = _call(new, block, x)
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return False
    finally:
        block.train(training)
    error = (found - expected).norm() / expected.norm().clamp_min(1e-12)
    return bool(error <= PROBE_TOLERANCE)


def _call(forward: Forward, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Call with the embedding that residual blocks want, or without it."""
    try:
        return forward(block, x, None)
    except TypeError:
        return forward(block, x)
