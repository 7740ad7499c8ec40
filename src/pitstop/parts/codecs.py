"""What the tiling engine must know of a VAE: its stages, its scale, and how it remembers frames.

A way through a VAE is a chain of stages. The ones at latent resolution are cheap and see far (the
middle block attends to every pixel), so they run over the whole picture; the large ones run tile by
tile. A module of your own is one stage, all of it tiled, unless you name its stages yourself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.parts.middle_attention import SCORE_BYTES, whole_picture

Run = Callable[[torch.Tensor], torch.Tensor]


class Memory(Protocol):
    """How a causal VAE carries its state from one temporal chunk to the next."""

    def begin(self) -> None:
        """Forget; the next call gets the first frames of a clip."""

    def carry(self) -> None:
        """The next call gets the frames right after those of the last call."""

    def end(self) -> None:
        """Forget; the next call gets a whole clip."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a way through a VAE; ``zoom`` is its result's pixels per latent cell."""

    run: Run
    zoom: int
    modules: tuple[nn.Module, ...]  # whose norms it runs
    time_zoom: int = 1  # its result's frames per latent frame
    workspace_bytes: int = 0  # at most, beyond what grows with the picture


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
    return Codec(module, stages[:1], stages[1:], scale, time_scale, memory)


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
    if not isinstance(decoder.conv_norm_out, nn.GroupNorm):
        raise PitstopError(
            f"{type(vae).__name__} norms its decoder by the latent, which tiles cannot: "
            "pass adapt(module, encode, decode, scale)"
        )
    downs = [block.downsamplers is not None for block in encoder.down_blocks]
    ups = [block.upsamplers is not None for block in decoder.up_blocks]
    scale = 2 ** sum(ups)
    if sum(downs) != sum(ups):
        raise PitstopError(
            f"{type(vae).__name__} shrinks by {2 ** sum(downs)} and grows by {scale}: "
            "pass adapt(module, encode, decode, scale)"
        )
    after_down = [scale // 2 ** sum(downs[: index + 1]) for index in range(len(downs))]
    after_up = [2 ** sum(ups[: index + 1]) for index in range(len(ups))]
    encoding = [
        Stage(block, zoom, (block,))
        for block, zoom in zip(encoder.down_blocks, after_down, strict=True)
    ]
    encoding[0] = Stage(_chain(encoder.conv_in, encoder.down_blocks[0]), *_rest(encoding[0]))
    last = _chain(_middle(encoder), _norm_out(encoder, encoder.conv_norm_out), _quantise(vae))
    encoding.append(Stage(last, 1, (encoder.mid_block, encoder.conv_norm_out), 1, SCORE_BYTES))
    first = _chain(_post_quantise(vae), decoder.conv_in, _middle(decoder))
    decoding = [Stage(first, 1, (decoder.mid_block,), 1, SCORE_BYTES)]
    decoding += [
        Stage(block, zoom, (block,))
        for block, zoom in zip(decoder.up_blocks, after_up, strict=True)
    ]
    last = _chain(decoder.up_blocks[-1], _norm_out(decoder, decoder.conv_norm_out))
    decoding[-1] = Stage(last, scale, (decoder.up_blocks[-1], decoder.conv_norm_out))
    weights = _present(encoder, vae.quant_conv), _present(decoder, vae.post_quant_conv)
    return Codec(vae, tuple(encoding), tuple(decoding), scale, 0, None, *weights)


def _rest(stage: Stage) -> tuple[int, tuple[nn.Module, ...], int]:
    return stage.zoom, stage.modules, stage.time_zoom


def _present(*modules: nn.Module | None) -> tuple[nn.Module, ...]:
    return tuple(each for each in modules if each is not None)


def _chain(*runs: Run) -> Run:
    def run(x: torch.Tensor) -> torch.Tensor:
        for each in runs:
            x = each(x)
        return x

    return run


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
    scale = vae.spatial_scale
    decoder, encoder = vae.decoder, vae.encoder
    out = {half: _level_out(half) for half in (encoder, decoder)}
    decoding = [
        Stage(_chain(decoder.conv_in, decoder.middle), 1, (decoder.middle,)),
        *_by_level(decoder.levels, 1, 1, grow=True),
    ]
    last = decoding[-1]
    decoding[-1] = Stage(
        _chain(last.run, out[decoder]), last.zoom, (*last.modules, decoder.norm_out), last.time_zoom
    )
    encoding = _by_level(encoder.levels, scale, vae.temporal_scale, grow=False)
    encoding[0] = Stage(_chain(encoder.conv_in, encoding[0].run), *_rest(encoding[0]))
    mean: Run = lambda moments: moments.chunk(2, dim=1)[0]  # noqa: E731 (as the VAE's encode)
    tail = _chain(encoder.middle, out[encoder], mean)
    encoding.append(Stage(tail, 1, (encoder.middle, encoder.norm_out)))
    halves = (encoder,), (decoder,)
    memory = PhaseMemory(vae)
    return Codec(vae, tuple(encoding), tuple(decoding), scale, vae.temporal_scale, memory, *halves)


def _level_out(half: Any) -> Run:
    def run(x: torch.Tensor) -> torch.Tensor:
        norm = half.norm_out
        x = norm.with_silu(x) if hasattr(norm, "with_silu") else nn.functional.silu(norm(x))
        result: torch.Tensor = half.conv_out(x)
        return result

    return run


def _by_level(levels: nn.Sequential, zoom: int, time_zoom: int, grow: bool) -> list[Stage]:
    """Cut the flat list behind every module that changes the size."""
    stages, blocks = [], []
    for block in levels:
        blocks.append(block)
        if "sample" in type(block).__name__.lower():
            zoom = zoom * 2 if grow else zoom // 2
            if _changes_time(block):
                time_zoom = time_zoom * 2 if grow else time_zoom // 2
            stages.append(Stage(_chain(*blocks), zoom, tuple(blocks), time_zoom))
            blocks = []
    return [*stages, Stage(_chain(*blocks), zoom, tuple(blocks), time_zoom)]


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
