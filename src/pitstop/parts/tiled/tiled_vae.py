"""Encode and decode pictures and clips larger than memory, in tiles that do not show.

Why tiled VAEs are slow and show seams: tile sizes are guessed, so there are too many; overlaps of a
quarter make it up to 1.8 times the work; every tile is normalised by its own statistics and attends
only to itself, so its tone differs from its neighbours' and ramps can only hide it; tiles are added
up in half precision, on the CPU, one synchronisation each.

What is done instead. Everything runs over the whole picture that can: stages that fit the memory
budget at once, others in strips of rows with the norms' statistics of the whole picture, which is
exact (``strips``). Only what would not fit even as a result is tiled: there the norms take
statistics from blocks spread over the picture, which leaves nothing but the border of a tile to
differ; how far that reaches is measured, and the overlap follows.

Floor: the untiled work, 10.5 TFLOP per 1024 x 1024 for a FLUX-shaped decoder, 13.3 ms on an H200;
attention over the whole picture adds 25 ms at 2048 x 2048, see ``middle_attention``.

Supported: diffusers' AutoencoderKL, with ``accelerate_vae`` or without; causal video VAEs built as
the workload ``tiled_vae``; any other by ``adapt``. Inference only: no gradient is recorded.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes
from pitstop.parts.group_norm.fuse_group_norm import Undo, probe
from pitstop.parts.group_norm.shared_norms import SharedNorms
from pitstop.parts.tiled.batch import best_batch
from pitstop.parts.tiled.costs import Costs
from pitstop.parts.tiled.plan import Plan, Wish, make_plan
from pitstop.parts.tiled.run import Job, Way, chunk_frames
from pitstop.parts.tiled.stage_costs import FARTHEST, MOST_REACH, border_reach, measure_costs
from pitstop.parts.tiled.tiling import Tiling, check_tiling
from pitstop.parts.vae.codecs import Codec, Memory, adapt, codec_of
from pitstop.parts.weights_offload import WeightsOffload

__all__ = ["Memory", "TiledVae", "Tiling", "adapt", "enable_tiling"]

FREE_SHARE = 0.9  # of the memory that is free: the rest is the allocator's and the driver's
SMALLER = 0.7  # of the budget, after memory ran out
RETRIES = 6  # then a sixth of the first budget was not enough
SAMPLE = 0.5  # work on shared statistics, in pictures, where tiles cannot be avoided
SAMPLE_OF_CLIP = 0.1  # a clip's convolutions are dearer, and its frames are normed one by one


class TiledVae:
    """A VAE that takes pictures of any size; ``plan`` and ``peak_bytes`` tell of the last call."""

    def __init__(self, vae: nn.Module | Codec, tiling: Tiling | None = None) -> None:
        self.codec = codec_of(vae)
        self.tiling = tiling or Tiling()
        self.plan: Plan | None = None
        self.peak_bytes: int | None = None  # n/a on the CPU
        self._kept: dict[Any, Any] = {}
        self._weights = WeightsOffload(self.codec) if self.tiling.offload_weights else None

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) or (N, C, T, H, W) to pixels."""
        codec = self.codec
        way = Way(codec.decoder, 1, min(codec.time_scale, 1), codec.memory)
        return self._call("latent", way, latent, codec.decoder_modules)

    def encode(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels to the latent, or to its moments where the VAE's encoder gives both."""
        codec = self.codec
        way = Way(codec.encoder, codec.scale, codec.time_scale, codec.memory)
        return self._call("pixels", way, pixels, codec.encoder_modules)

    @torch.no_grad()
    def _call(
        self, name: str, way: Way, x: torch.Tensor, modules: tuple[nn.Module, ...]
    ) -> torch.Tensor:
        device = self._check(name, way, x)
        if self._weights is None:
            return self._run(name, way, x)
        with self._weights.on(modules or (self.codec.module,), device):
            return self._run(name, way, x)

    def _run(self, name: str, way: Way, x: torch.Tensor) -> torch.Tensor:
        budget = self.tiling.budget_bytes
        for _ in range(RETRIES):
            job = self._job(name, way, x, budget)
            try:
                return self._measured(job, x)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                budget = int(SMALLER * min(job.plan.budget_bytes, job.plan.predicted_bytes))
                self._say(f"out of memory: trying again within {binary_bytes(budget)}")
        raise PitstopError(
            f"out of memory {RETRIES} times, with ever smaller tiles: free memory on {x.device}"
        )

    def _measured(self, job: Job, x: torch.Tensor) -> torch.Tensor:
        """Run, and say what it took if the plan is new."""
        new, self.plan = job.plan != self.plan, job.plan
        if new:
            self._say(str(job.plan))
        if x.is_cuda:
            torch.cuda.reset_peak_memory_stats(x.device)
        result = job.run(x)
        if x.is_cuda:
            self.peak_bytes = torch.cuda.max_memory_allocated(x.device)
            if new:
                self._say(f"true peak {binary_bytes(self.peak_bytes)}")
        return result

    def _job(self, name: str, way: Way, x: torch.Tensor, budget: int | None) -> Job:
        """Plan, or take the plan of the last picture of this kind."""
        codec, tiling = self.codec, self.tiling
        latent_frames = _latent_frames(x, way.time_zoom) if way.time_zoom else 0
        cuts = [slice(0, None)]
        if way.time_zoom and codec.memory is not None:
            cuts = chunk_frames(latent_frames, tiling.frames, way.time_zoom)
        if len(cuts) == 1:
            way = replace(way, memory=None)
        plan_key = (name, x.shape, x.dtype, x.device, budget)
        if plan_key not in self._kept:
            bytes_now = budget or _free_bytes(x.device) + self._base(x)
            self._kept[plan_key] = self._plan(name, way, x, bytes_now, cuts)
        plan, norms = self._kept[plan_key], SharedNorms()
        sample = self._sample if plan.local else 0.0
        return Job(way, plan, norms, latent_frames, tiling.frames, sample, tiling.offload)

    @property
    def _sample(self) -> float:
        if self.tiling.sample is not None:
            return self.tiling.sample
        if not self.codec.known:
            return 0.0
        return SAMPLE_OF_CLIP if self.codec.time_scale else SAMPLE

    def _plan(self, name: str, way: Way, x: torch.Tensor, budget: int, cuts: list[slice]) -> Plan:
        tiling, scale = self.tiling, self.codec.scale
        rows, columns = (side // way.zoom for side in x.shape[-2:])
        like = x[:, :, cuts[0]] if way.time_zoom else x
        costs = self._costs(name, way, like)
        largest = None if tiling.tile is None else max(tiling.tile // scale, 1)
        overlaps = self._overlaps(name, way, like)
        local = tiling.overlap is None and overlaps[0] <= 2 * MOST_REACH
        if largest is not None and tiling.overlap is None:
            overlaps = tuple(min(each, largest // 2) for each in overlaps)
        wish = Wish(
            overlaps=overlaps,
            budget_bytes=budget,
            base_bytes=self._base(x),
            share=tiling.share,
            largest=largest,
            batch=tiling.batch or 1,
            middle=tiling.middle,
            offload=tiling.offload and x.is_cuda,
            zoom=scale,
            chunks=len(cuts),
            sample=self._sample,
            local=local,
            times=x.shape[2] / like.shape[2] if way.time_zoom else 1.0,
            exact=tiling.overlap is None,
        )
        plan = make_plan(costs, rows, columns, wish)
        if tiling.batch is None and not plan.untiled and tiling.tile is not None:
            return best_batch(costs, way, plan, wish, like)
        return plan

    def _costs(self, name: str, way: Way, like: torch.Tensor) -> Costs:
        key = ("costs", name, like.shape[:-2], like.dtype, like.device, way.memory is None)
        if key not in self._kept:
            grows = name == "latent"
            self._kept[key] = measure_costs(way.stages, like, way.zoom, grows, way.memory)
        costs: Costs = self._kept[key]
        return costs

    def _overlaps(self, name: str, way: Way, like: torch.Tensor) -> tuple[int, ...]:
        """The overlap in cells for each number of whole stages: as given, or as far as it shows."""
        if self.tiling.overlap is not None:
            return (-(-self.tiling.overlap // self.codec.scale),) * len(way.stages)
        key = ("overlaps", name, like.shape[:-2], like.dtype, like.device)
        if key not in self._kept:
            grows = name == "latent"
            self._kept[key] = tuple(
                2 * _reach(way, whole, grows, like) + 1 for whole in range(len(way.stages))
            )
        overlaps: tuple[int, ...] = self._kept[key]
        return overlaps

    def _base(self, x: torch.Tensor) -> int:
        """Bytes in use before the call: the allocator's count, or weights and input."""
        if x.is_cuda:
            return torch.cuda.memory_allocated(x.device)
        return x.nbytes + sum(each.nbytes for each in self.codec.module.parameters())

    def _check(self, name: str, way: Way, x: torch.Tensor) -> torch.device:
        """Raise one error that names what is wrong; return the device to work on."""
        dimensions = 5 if way.time_zoom else 4
        if x.dim() != dimensions or not x.is_floating_point():
            raise PitstopError(
                f"{name} is {tuple(x.shape)} of {x.dtype}: "
                f"pass floating point of {dimensions} dimensions"
            )
        if min(x.shape[-2:]) < way.zoom:
            raise PitstopError(
                f"{name} is {x.shape[-1]}x{x.shape[-2]}: pass at least {way.zoom} pixels each way"
            )
        if way.time_zoom > 1 and x.shape[2] % way.time_zoom != 1:
            raise PitstopError(
                f"{name} has {x.shape[2]} frames: pass {way.time_zoom} k + 1 of them"
            )
        weight = next(self.codec.module.parameters(), x)
        if self._weights is None and weight.device != x.device:
            raise PitstopError(f"{name} is on {x.device}, the VAE on {weight.device}: use one")
        if weight.dtype != x.dtype:
            raise PitstopError(f"{name} is {x.dtype}, the VAE {weight.dtype}: use one type")
        check_tiling(self.tiling, self.codec.scale)
        return x.device

    def _say(self, text: str) -> None:
        if not self.tiling.quiet:
            sys.stderr.write(f"tiled_vae: {text}\n")


def _latent_frames(x: torch.Tensor, time_zoom: int) -> int:
    return int(1 + (x.shape[2] - 1) // time_zoom)


def _reach(way: Way, whole: int, grows: bool, like: torch.Tensor) -> int:
    """How far the border of a tile shows when so many stages run whole."""
    stages = len(way.stages)
    first, last = (whole, stages) if grows else (0, stages - whole)
    size = (FARTHEST * way.zoom, 2 * FARTHEST * way.zoom)
    x = way.run(0, first)(probe((*like.shape[:-2], *size), like))
    norms = SharedNorms()
    undo = norms.attach([each for stage in way.stages[first:last] for each in stage.modules])
    try:
        zooms = (way.zoom_before(first), way.stages[last - 1].zoom)
        return border_reach(way.run(first, last), norms, x, zooms)
    finally:
        undo()


def _free_bytes(device: torch.device) -> int:
    """What this process may still allocate, with a little left over."""
    if device.type != "cuda":
        return int(FREE_SHARE * psutil.virtual_memory().available)
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(FREE_SHARE * (free + cached))


def enable_tiling(vae: Any, tiling: Tiling | None = None) -> Undo:
    """Let ``vae.encode`` and ``vae.decode`` tile by themselves, in place; call it to undo.

    diffusers' pipelines then tile without knowing: only the inner halves are replaced.
    """
    tiled = TiledVae(vae, tiling)
    if hasattr(vae, "_decode") and hasattr(vae, "_encode"):
        return Undo((_put(vae, "_encode", tiled.encode), _put(vae, "_decode", _as_output(tiled))))
    return Undo((_put(vae, "encode", tiled.encode), _put(vae, "decode", tiled.decode)))


def _as_output(tiled: TiledVae) -> Callable[..., Any]:
    from diffusers.models.autoencoders.vae import DecoderOutput  # noqa: PLC0415 (only for its VAE)

    def decode(z: torch.Tensor, return_dict: bool = True) -> Any:
        sample = tiled.decode(z)
        return DecoderOutput(sample=sample) if return_dict else (sample,)

    return decode


def _put(vae: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    if name in vars(vae):
        raise PitstopError(f"{type(vae).__name__}.{name} is replaced already: undo that first")
    vars(vae)[name] = function
    return lambda: vars(vae).pop(name) and None
