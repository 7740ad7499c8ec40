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

A causal video VAE gets ``causal_blocks`` instead. Not supported: blocks with an embedding (a
UNet's) keep their own forward beyond the fused norm, and other 3-D convolutions keep their layout.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pitstop.parts import vae_blocks
from pitstop.parts.causal_blocks import accelerate_causal
from pitstop.parts.fuse_group_norm import Undo, fuse_group_norm, subclass, swap_class

Run = Callable[[], object]
REPEATS = 5  # runs after one warm-up; the fastest counts, since noise only adds


def accelerate_vae(vae: nn.Module, compile: bool = False, measure: Run | None = None) -> Undo:  # noqa: A002
    """Apply every step that fits to ``vae``, in place; call the result to undo them.

    Given ``measure``, a function that runs the VAE once, write each step's gain to stderr.
    """
    steps: list[tuple[str, Callable[[nn.Module], Undo]]] = [
        ("fused norm", fuse_group_norm),
        ("channels-last", _channels_last),
        ("one pass for biases and residual", _residual_blocks),
        ("upsampling folded into its convolution", _upsample_blocks),
        ("attention of the wide head", _attention_blocks),
        ("causal blocks", accelerate_causal),
    ]
    if compile:
        steps.append(("compile", _compile))
    before_ms = _report("as it was", measure, None)
    done = []
    for name, step in steps:
        done.append(step(vae))
        before_ms = _report(name, measure, before_ms)
    return Undo(tuple(done))


def _report(name: str, measure: Run | None, before_ms: float | None) -> float | None:
    if measure is None:
        return None
    now_ms = _fastest_ms(measure)
    gain = "" if before_ms is None else f"  {before_ms / now_ms:.2f}x"
    sys.stderr.write(f"{name:40s} {now_ms:8.2f} ms{gain}\n")
    return now_ms


def _fastest_ms(run: Run) -> float:
    def once() -> float:
        start = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    once()
    return min(once() for _ in range(REPEATS))


def _channels_last(vae: nn.Module) -> Undo:
    """Lay 4-D weights out channels-last; the activations follow the first convolution."""
    changed = [each for each in vae.parameters() if each.dim() == 4 and each.is_contiguous()]

    def lay_out(layout: torch.memory_format) -> None:
        for each in changed:
            each.data = each.data.contiguous(memory_format=layout)

    lay_out(torch.channels_last)
    return Undo((lambda: lay_out(torch.contiguous_format),))


def _residual_blocks(vae: nn.Module) -> Undo:
    return _exchange(vae, vae_blocks.residual_block, vae_blocks.residual_forward)


def _upsample_blocks(vae: nn.Module) -> Undo:
    return _exchange(vae, vae_blocks.upsample_block, vae_blocks.upsample_forward)


def _exchange(
    vae: nn.Module,
    fits: Callable[[nn.Module], bool],
    make: Callable[[vae_blocks.Forward], vae_blocks.Forward],
) -> Undo:
    """Give every block that fits, and agrees on a trial, the new forward."""
    steps = []
    made: dict[Any, Any] = {}
    for block in list(vae.modules()):
        kind: Any = type(block)
        if "forward" in vars(block) or not fits(block):
            continue
        new = made.setdefault(kind, make(kind.forward))
        if vae_blocks.agree(block, kind.forward, new):
            steps.append(swap_class(block, subclass(kind, new)))
            steps.append(_forget(block))
    return Undo(tuple(steps))


def _forget(block: nn.Module) -> Callable[[], None]:
    return lambda: vars(block).pop("_pitstop_folded", None) and None


def _attention_blocks(vae: nn.Module) -> Undo:
    exchanged = _exchange(vae, vae_blocks.attention_block, vae_blocks.attention_forward)
    wide = [_set_processor(block) for block in vae.modules() if vae_blocks.wide_head(block)]
    return Undo((exchanged, *wide))


def _set_processor(block: Any) -> Undo:
    old = block.processor
    block.set_processor(vae_blocks.WideHeadProcessor(old))
    return Undo((lambda: block.set_processor(old),))


def _compile(vae: nn.Module) -> Undo:
    """Compile encoder and decoder where they exist, else the whole module, in place."""
    parts = [getattr(vae, name, None) for name in ("encoder", "decoder")]
    found = [each for each in parts if isinstance(each, nn.Module)] or [vae]
    for each in found:
        each.compile()

    def back() -> None:
        for each in found:
            each._compiled_call_impl = None

    return Undo((back,))
