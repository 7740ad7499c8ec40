"""What the tiling engine must know of a VAE: its stages, its scale, and how it remembers frames.

A way through a VAE is a chain of stages. The ones at latent resolution are cheap and see far (the
middle block attends to every pixel), so they run over the whole picture; the large ones run tile by
tile. A module of your own is one stage, all of it tiled, unless you name its stages yourself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.parts.vae.middle_attention import SCORE_BYTES, whole_picture
from pitstop.parts.vae.stages import Run, Stage, chain, halo_of

PLAIN_PARTS = {"resnets", "upsamplers", "downsamplers"}  # more in a block: it attends as well


class Memory(Protocol):
    """How a causal VAE carries its state from one temporal chunk to the next."""

    def begin(self) -> None:
        """Forget; the next call gets the first frames of a clip."""

    def carry(self) -> None:
        """The next call gets the frames right after those of the last call."""

    def end(self) -> None:
        """Forget; the next call gets a whole clip."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A VAE as the engine sees it."""

    module: nn.Module
    encoder: tuple[Stage, ...]  # large to small
    decoder: tuple[Stage, ...]  # small to large
    scale: int  # pixels per latent cell, in height and width
    time_scale: int = 0  # frames per latent frame; 0: pictures, not clips
    memory: Memory | None = None  # None: time is never cut
    encoder_modules: tuple[nn.Module, ...] = ()  # weights that encoding needs; () all
    decoder_modules: tuple[nn.Module, ...] = ()
    known: bool = True  # whether each norm runs once in a pass, so that tiles can share statistics


def adapt(
    module: nn.Module,
    encode: Run,
    decode: Run,
    scale: int,
    time_scale: int = 0,
    memory: Memory | None = None,
) -> Codec:
    """A codec of any module: ``encode`` and ``decode`` take a tensor and return one.

    ``time_scale`` is for clips (N, C, T, H, W); given ``memory``, they are cut in time too.
    """
    if scale < 1 or time_scale < 0:
        raise PitstopError(f"scale is {scale}, time_scale {time_scale}: pass pixels per cell")
    stages = Stage(encode, 1, (module,)), Stage(decode, scale, (module,), max(time_scale, 1))
    return Codec(module, stages[:1], stages[1:], scale, time_scale, memory, known=False)


def codec_of(vae: Any) -> Codec:
    """The codec of a VAE that is known: diffusers' AutoencoderKL, or a causal one with levels."""
    if isinstance(vae, Codec):
        return vae
    encoder, decoder = getattr(vae, "encoder", None), getattr(vae, "decoder", None)
    if _holds(encoder, "conv_in down_blocks mid_block conv_norm_out conv_out") and _holds(
        decoder, "conv_in mid_block up_blocks conv_norm_out conv_out"
    ):
        return _of_blocks(vae)
    names = "conv_in levels middle norm_out conv_out"
    if _holds(encoder, names) and _holds(decoder, names) and hasattr(vae, "temporal_scale"):
        return _of_levels(vae)
    raise PitstopError(
        f"{type(vae).__name__} is no VAE that can be tiled as it is: "
        "pass adapt(module, encode, decode, scale)"
    )


def _holds(module: Any, names: str) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in names.split())


def _of_blocks(vae: Any) -> Codec:
    """Diffusers' AutoencoderKL and what is built like it."""
    encoder, decoder = vae.encoder, vae.decoder
    if not isinstance(decoder.conv_in, nn.Conv2d):
        raise PitstopError(
            f"{type(vae).__name__} takes clips in a way of its own: "
            "pass adapt(module, encode, decode, scale, time_scale, memory)"
        )
    spatial = not isinstance(decoder.conv_norm_out, nn.GroupNorm)  # normed by the latent
    if spatial or hasattr(vae, "quantize") or not hasattr(vae, "post_quant_conv"):
        raise PitstopError(
            f"{type(vae).__name__} does more to a latent than its decoder's blocks show: "
            "pass adapt(module, encode, decode, scale)"
        )
    shrinks = 2 ** sum(block.downsamplers is not None for block in encoder.down_blocks)
    scale = 2 ** sum(block.upsamplers is not None for block in decoder.up_blocks)
    if shrinks != scale:
        raise PitstopError(
            f"{type(vae).__name__} shrinks by {shrinks} and grows by {scale}: "
            "pass adapt(module, encode, decode, scale)"
        )
    weights = _present(encoder, vae.quant_conv), _present(decoder, vae.post_quant_conv)
    stages = tuple(_encoding(vae, scale)), tuple(_decoding(vae))
    return Codec(vae, *stages, scale, 0, None, *weights)


def _encoding(vae: Any, zoom: int) -> Iterator[Stage]:
    """Blocks of the encoder; the one before a block that shrinks the picture waits for it."""
    half = vae.encoder
    yield Stage(half.conv_in, zoom, (), halo=halo_of(zoom), waits=True)
    for block in half.down_blocks:
        parts = list(_parts(block, block.downsamplers))
        for part, then in zip(parts, [*parts[1:], None], strict=True):
            halo = halo_of(zoom) if part.local else None
            zoom = zoom // 2 if part.resizes else zoom
            waits = then is not None and then.resizes
            yield Stage(part.run, zoom, (part.module,), halo=halo, waits=waits)
    middle = chain(_middle(half), _norm_out(half, half.conv_norm_out), _quantise(vae))
    yield Stage(middle, 1, (half.mid_block, half.conv_norm_out), 1, SCORE_BYTES)


def _decoding(vae: Any) -> Iterator[Stage]:
    """Blocks of the decoder; what enlarges the picture waits for the block behind it."""
    half, zoom = vae.decoder, 1
    middle = chain(_post_quantise(vae), half.conv_in, _middle(half))
    yield Stage(middle, 1, (half.mid_block,), 1, SCORE_BYTES)
    for block in half.up_blocks:
        for part in _parts(block, block.upsamplers):
            zoom = zoom * 2 if part.resizes else zoom
            halo = halo_of(zoom) if part.local else None
            yield Stage(part.run, zoom, (part.module,), halo=halo, waits=part.resizes)
    norm = half.conv_norm_out
    yield Stage(_norm_out(half, norm), zoom, (norm,), halo=halo_of(zoom))


class _Part(NamedTuple):
    """A residual block, a resampler (which resizes), or a block that cannot be taken apart."""

    run: Run
    module: nn.Module
    resizes: bool
    local: bool


def _parts(block: Any, resamplers: Any) -> Iterator[_Part]:
    """Residual blocks and resamplers one by one, where a block is nothing but those."""
    if "forward" in vars(block) or set(dict(block.named_children())) - PLAIN_PARTS:
        yield _Part(block, block, resamplers is not None, local=False)
        return
    for resnet in block.resnets:
        yield _Part(partial(resnet, temb=None), resnet, resizes=False, local=True)
    for each in resamplers or ():
        yield _Part(each, each, resizes=True, local=True)


def _present(*modules: nn.Module | None) -> tuple[nn.Module, ...]:
    return tuple(each for each in modules if each is not None)


def _quantise(vae: Any) -> Run:
    return lambda x: x if vae.quant_conv is None else vae.quant_conv(x)


def _post_quantise(vae: Any) -> Run:
    return lambda z: z if vae.post_quant_conv is None else vae.post_quant_conv(z)


def _middle(half: Any) -> Run:
    def run(x: torch.Tensor) -> torch.Tensor:
        with whole_picture(half.mid_block):
            result: torch.Tensor = half.mid_block(x)
        return result

    return run


def _norm_out(half: Any, norm: Any) -> Run:
    """The last norm, SiLU and convolution; one pass for norm and SiLU where the norm can."""

    def run(x: torch.Tensor) -> torch.Tensor:
        if hasattr(norm, "with_silu") and isinstance(half.conv_act, nn.SiLU):
            result: torch.Tensor = half.conv_out(norm.with_silu(x))
        else:
            result = half.conv_out(half.conv_act(norm(x)))
        return result

    return run


def _of_levels(vae: Any) -> Codec:
    """A causal video VAE whose levels are a flat list, such as the workload ``tiled_vae``."""
    encoder, decoder, scale, time = vae.encoder, vae.decoder, vae.spatial_scale, vae.temporal_scale
    middle = Stage(chain(decoder.conv_in, decoder.middle), 1, (decoder.middle,))
    decoding = [middle, *_growing(decoder.levels)]
    last, out = decoding[-1], (_level_out(decoder), (decoder.norm_out,))
    decoding.append(Stage(out[0], last.zoom, out[1], last.time_zoom, halo=halo_of(last.zoom)))
    mean: Run = lambda moments: moments.chunk(2, dim=1)[0]  # noqa: E731 (as the VAE's encode)
    encoding = [
        Stage(encoder.conv_in, scale, (), time, halo=halo_of(scale), waits=True),
        *_shrinking(encoder.levels, scale, time),
        Stage(
            chain(encoder.middle, _level_out(encoder), mean), 1, (encoder.middle, encoder.norm_out)
        ),
    ]
    halves = (encoder,), (decoder,)
    stages = tuple(encoding), tuple(decoding)
    return Codec(vae, *stages, scale, time, PhaseMemory(vae), *halves)


def _level_out(half: Any) -> Run:
    def run(x: torch.Tensor) -> torch.Tensor:
        norm = half.norm_out
        x = norm.with_silu(x) if hasattr(norm, "with_silu") else nn.functional.silu(norm(x))
        result: torch.Tensor = half.conv_out(x)
        return result

    return run


def _growing(levels: nn.Sequential) -> Iterator[Stage]:
    zoom = time_zoom = 1
    for block in levels:
        grows = _resizes(block)
        zoom, time_zoom = zoom * (1 + grows), time_zoom * (1 + (grows and _changes_time(block)))
        yield Stage(block, zoom, (block,), time_zoom, halo=halo_of(zoom), waits=grows)


def _shrinking(levels: nn.Sequential, zoom: int, time_zoom: int) -> Iterator[Stage]:
    blocks = list(levels)
    for block, then in zip(blocks, [*blocks[1:], None], strict=True):
        halo, shrinks = halo_of(zoom), _resizes(block)
        zoom //= 1 + shrinks
        time_zoom //= 1 + (shrinks and _changes_time(block))
        yield Stage(block, zoom, (block,), time_zoom, halo=halo, waits=_resizes(then))


def _resizes(block: Any) -> bool:
    return "sample" in type(block).__name__.lower()


def _changes_time(block: Any) -> bool:
    return bool(getattr(block, "in_time", block.conv.stride[0] > 1))


class PhaseMemory:
    """State kept on layers with a ``phase`` (whole, first or next) and a ``memory`` of frames."""

    def __init__(self, vae: nn.Module) -> None:
        self.layers: list[Any] = [each for each in vae.modules() if hasattr(each, "phase")]

    def begin(self) -> None:
        """Forget, and keep the last frames from now on."""
        self._enter("FIRST", forget=True)

    def carry(self) -> None:
        """Continue behind the frames kept."""
        self._enter("NEXT", forget=False)

    def end(self) -> None:
        """Forget, and keep nothing."""
        self._enter("WHOLE", forget=True)

    def _enter(self, phase: str, forget: bool) -> None:
        for layer in self.layers:
            layer.phase = type(layer.phase)[phase]
            if forget and hasattr(layer, "memory"):
                layer.memory = None


@contextmanager
def remembering(memory: Memory | None) -> Iterator[None]:
    """Leave the VAE without state, whatever happens inside."""
    try:
        yield
    finally:
        if memory is not None:
            memory.end()
