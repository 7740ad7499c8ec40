"""Make an image VAE fast: fused norms, channels-last, fused biases, folded upsampling, attention.

Where a FLUX-shaped decoder of 1024 x 1024 spends its 86 ms on an H200 in bf16: half of it in
GroupNorm on a quarter of the chip, then in layout conversions around cuDNN's channels-last kernels,
in bias and residual passes as long as the convolutions they follow, in an attention whose one head
of 512 is too wide for flash kernels, and in a nearest-neighbour copy before each upsampling
convolution. Each step below removes one of these; the order matters, since channels-last only wins
once the norm is fused.

Floor: 10.5 TFLOP at 790 TFLOP/s are 13.3 ms. Nothing is approximated: biases and residuals are
summed in fp32 and rounded once; the upsampling kernel is the same sum of the same weights, rounded
to the weights' type.

A step that makes this VAE no faster on this GPU is left out: channels-last in a video VAE whose few
2-D convolutions stand between 3-D ones, for instance, is a copy more at each of them.

A causal video VAE gets ``causal_blocks`` instead. Not supported: blocks with an embedding (a
UNet's) keep their own forward beyond the fused norm, and other 3-D convolutions keep their layout.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.group_norm.fuse_group_norm import Undo, fuse_group_norm, subclass, swap_class
from pitstop.parts.vae import blocks
from pitstop.parts.vae.causal_blocks import accelerate_causal
from pitstop.parts.vae.exchange_trial import Clock, Run, Trial, decodings, fastest_ms

Exchanges = Iterator[tuple[str, Callable[[], Undo]]]


def accelerate_vae(
    vae: nn.Module,
    compile: bool = False,  # noqa: A002
    measure: Run | None = None,
    clock: Clock = fastest_ms,
) -> Undo:
    """Apply every step that makes ``vae`` faster, in place; call the result to undo them.

    Each is timed by ``measure``, a function that runs the VAE once: by default, on a GPU, it
    decodes a small picture and a large one. ``str()`` of the result says what was done, and what it
    gained.
    """
    on_gpu = next((each.is_cuda for each in vae.parameters()), False)
    runs = {"": measure} if measure else decodings(vae) if on_gpu else {}
    trial = Trial(runs, clock)
    for name, exchange in _exchanges(vae, compile):
        trial.attempt(name, exchange)
    return trial.done


def _exchanges(vae: nn.Module, compiled: bool) -> Exchanges:
    """Every step that may fit, in an order in which each finds what it needs."""
    yield "fused norm", lambda: fuse_group_norm(vae)
    yield "channels-last", lambda: _channels_last(vae)
    biases = blocks.residual_block, blocks.residual_forward
    yield from _blocks(vae, "one pass for biases and residual", *biases)
    folded = blocks.upsample_block, blocks.upsample_forward
    yield from _blocks(vae, "upsampling folded into its convolution", *folded)
    wide = blocks.attention_block, blocks.attention_forward
    yield from _blocks(vae, "attention of the wide head", *wide)
    yield "attention of diffusers' wide head", lambda: _attention_processors(vae)
    yield "causal blocks", lambda: accelerate_causal(vae)
    if compiled:
        yield "compile", lambda: _compile(vae)


def _blocks(
    vae: nn.Module,
    name: str,
    fits: Callable[[nn.Module], bool],
    make: Callable[[blocks.Forward], blocks.Forward],
) -> Exchanges:
    """One step for each class of block."""
    kinds = dict.fromkeys(type(each) for each in vae.modules() if fits(each))
    for kind in kinds:
        yield f"{name}: {kind.__name__}", partial(_exchange, vae, kind, fits, make)


def _channels_last(vae: nn.Module) -> Undo:
    """Lay 4-D weights out channels-last; the activations follow the first convolution."""
    changed = [each for each in vae.parameters() if each.dim() == 4 and each.is_contiguous()]

    def lay_out(layout: torch.memory_format) -> None:
        for each in changed:
            each.data = each.data.contiguous(memory_format=layout)

    lay_out(torch.channels_last)
    return Undo((lambda: lay_out(torch.contiguous_format),) if changed else ())


def _exchange(
    vae: nn.Module,
    kind: Any,
    fits: Callable[[nn.Module], bool],
    make: Callable[[blocks.Forward], blocks.Forward],
) -> Undo:
    """Give every block of a class that fits, and agrees on a trial, the new forward."""
    steps = []
    new = make(kind.forward)
    for block in [each for each in vae.modules() if type(each) is kind]:
        if "forward" in vars(block) or not fits(block):
            continue
        if blocks.agree(block, kind.forward, new):
            steps.append(swap_class(block, subclass(kind, new)))
            steps.append(_forget(block))
    return Undo(tuple(steps))


def _forget(block: nn.Module) -> Callable[[], None]:
    return lambda: vars(block).pop("_pitstop_folded", None) and None


def _attention_processors(vae: nn.Module) -> Undo:
    return Undo(tuple(_set_processor(each) for each in vae.modules() if blocks.wide_head(each)))


def _set_processor(block: Any) -> Undo:
    old = block.processor
    block.set_processor(blocks.WideHeadProcessor(old))
    return Undo((lambda: block.set_processor(old),))


def _compile(vae: nn.Module) -> Undo:
    """Compile encoder and decoder where they exist, else the whole module, in place."""
    parts = [getattr(vae, name, None) for name in ("encoder", "decoder")]
    found = [each for each in parts if isinstance(each, nn.Module)] or [vae]
    for each in found:
        each.compile()

    def back() -> None:
        for each in found:
            setattr(each, internals.COMPILED_CALL, None)

    return Undo((back,))
