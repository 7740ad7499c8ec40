"""Report 002: a tiled video VAE (SeedVR2.5); the report is in Turkish."""

import time
from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from claim import Answer, claim, faster, gained, peak, relative, side_by_side, unmeasured
from torch import Tensor

from pitstop.core.units import binary_bytes, milliseconds, percent, precise_percent
from pitstop.parts import accelerate_vae
from pitstop.workloads.tiled_vae import options, tiling
from pitstop.workloads.tiled_vae.model import VideoVae
from pitstop.workloads.tiled_vae.tiling import Tiling

TITLE = "Tiled video VAE (SeedVR2.5)"
Run = Callable[[], object]


@cache
def network(device: str) -> VideoVae:
    """The VAE at the size that suits the device, without gradients."""
    size = options.FULL if device == "cuda" else options.SMALL
    torch.manual_seed(0)
    vae = VideoVae(size.vae).eval().requires_grad_(False)
    return vae.to(device, torch.bfloat16 if device == "cuda" else torch.float32)


def tile(device: str) -> Tensor:
    """The latent of one tile of one frame in five."""
    side = 64 if device == "cuda" else 8
    torch.manual_seed(1)
    return torch.randn(
        1, 16, 2, side, side, device=device, dtype=next(network(device).parameters()).dtype
    )


def whole(device: str, pixels: int = 0) -> Tensor:
    """The latent of a whole clip, of several tiles."""
    side = (pixels or (1024 if device == "cuda" else 128)) // 8
    torch.manual_seed(1)
    return torch.randn(
        1, 16, 2, side, side, device=device, dtype=next(network(device).parameters()).dtype
    )


def usual(device: str) -> Tiling:
    """Tiles as found."""
    return Tiling(512, 64, device) if device == "cuda" else Tiling(64, 16, device)


@claim("cudnn.benchmark makes convolutions 10-30% faster", on=("cuda",))
def cudnn_benchmark(device: str) -> Answer:
    vae, latent = network(device), tile(device)

    def with_flag(flag: bool) -> Run:
        def run() -> Tensor:
            torch.backends.cudnn.benchmark = flag
            return vae.decode(latent)

        return run

    begun = time.perf_counter()
    with_flag(True)()
    torch.cuda.synchronize()
    first = time.perf_counter() - begun
    found = side_by_side(with_flag(False), with_flag(True), device)
    torch.backends.cudnn.benchmark = False
    return Answer(
        "one tile of 512x512 decoded in bf16, always the same shape",
        f"{faster(found)}; the first call with it took {first:.1f} s",
        gained(found, 1.1, 1.3),
        "each new shape pays the first call again",
    )


@claim("TF32 is up to 8 times as fast as FP32", on=("cuda",))
def tf32(device: str) -> Answer:
    a, b = (torch.randn(8192, 8192, device=device) for _ in range(2))

    def with_flag(run: Run, flag: bool) -> Run:
        def each() -> object:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = flag
            return run()

        return each

    product = side_by_side(
        with_flag(lambda: a @ b, False), with_flag(lambda: a @ b, True), device, 6
    )
    vae, latent = network(device), tile(device)

    def decode() -> Tensor:
        return vae.decode(latent)

    half = side_by_side(with_flag(decode, False), with_flag(decode, True), device, 6)
    vae.float()
    single = latent.float()

    def in_fp32() -> Tensor:
        return vae.decode(single)

    full = side_by_side(with_flag(in_fp32, False), with_flag(in_fp32, True), device, 6)
    vae.to(latent.dtype)
    return Answer(
        "a product of 8192x8192 in fp32; a tile decoded in bf16, as the system does; and in fp32",
        f"{faster(product)}; {faster(half)}; {faster(full)}",
        "depends",
        "on the precision: the VAE runs bf16, where TF32 changes nothing",
    )


@claim("Contiguous tiles make memory operations 5-15% faster")
def contiguous_tiles(device: str) -> Answer:
    vae, latent = network(device), whole(device)
    side = tile(device).shape[3]
    part = latent[:, :, :, :side, :side]
    found = side_by_side(lambda: vae.decode(part), lambda: vae.decode(part.contiguous()), device)
    return Answer(
        "a tile decoded as a view, and copied first", faster(found), gained(found, 1.05, 1.15)
    )


@claim("In-place operations are 10-20% faster on large tensors")
def in_place(device: str) -> Answer:
    latent = tile(device)
    vae = network(device)
    weight = torch.rand(latent.shape[3] * 8, latent.shape[4] * 8, device=device, dtype=latent.dtype)
    decoded = vae.decode(latent)
    single = side_by_side(lambda: decoded * weight, lambda: decoded.mul_(weight), device)

    def copied() -> Tensor:
        return vae.decode(latent) * weight

    def placed() -> Tensor:
        return vae.decode(latent).mul_(weight)

    found = side_by_side(copied, placed, device)
    memory = ""
    if device == "cuda":
        memory = f"; peak {binary_bytes(peak(copied))} and {binary_bytes(peak(placed))}"
    return Answer(
        "a tile weighted, out of place and in place: alone, and with its decode",
        f"alone {faster(single)}; with the decode {faster(found)}{memory}",
        gained(found, 1.1, 1.2),
        "the multiplication is too small a part of a tile",
    )


@claim("Non-blocking transfers are effectively free", on=("cuda",))
def non_blocking(device: str) -> Answer:
    vae, latent = network(device), tile(device)
    pageable = torch.rand(1, 3, 5, 720, 1280)
    pinned = pageable.pin_memory()

    def copied(source: Tensor, non_blocking: bool) -> Run:
        def run() -> object:
            return source.to(device, non_blocking=non_blocking), vae.decode(latent)

        return run

    alone = side_by_side(lambda: vae.decode(latent), copied(pinned, True), device, 6)
    plain = side_by_side(copied(pageable, False), copied(pageable, True), device, 6)
    from_pinned = side_by_side(copied(pageable, False), copied(pinned, True), device, 6)
    assert alone.before
    assert alone.after
    return Answer(
        "a clip of 5 frames 720x1280 copied before a tile is decoded",
        f"from pageable memory {faster(plain)}; from pinned memory {faster(from_pinned)}, "
        f"{milliseconds(alone.after - alone.before)} more than without a copy",
        "depends",
        "on pinned memory; and nobody may change or read it before an event says so",
    )


@claim("Preallocated results remove repeated allocation while tiles are processed")
def preallocated(device: str) -> Answer:
    torch.manual_seed(0)
    tiles = [torch.rand(1, 3, 5, 128, 128, device=device) for _ in range(8)]

    def gathered() -> Tensor:
        return torch.cat(tiles, 4)

    result = torch.empty(1, 3, 5, 128, 128 * len(tiles), device=device)

    def placed() -> Tensor:
        for number, each in enumerate(tiles):
            result[..., 128 * number : 128 * (number + 1)] = each
        return result

    found = side_by_side(gathered, placed, device)
    one = side_by_side(lambda: network(device).decode(tile(device)), gathered, device, 6)
    assert one.before
    assert found.before
    return Answer(
        "eight tiles put together by cat, and into a tensor that is there",
        f"{faster(found)}; {precise_percent(found.before / (8 * one.before))} of the decode of eight tiles",
        "true" if found.verdict == "better" else "false",
        "it allocates less, and tells in no time of a decode",
    )


@claim("Cached cosine ramps make work on many tiles 5-10% faster")
def cached_ramps(device: str) -> Answer:
    vae, latent = network(device), tile(device)
    overlap = usual(device).overlap

    def ramp() -> Tensor:
        steps = torch.linspace(0, 1, overlap, device=device)
        return 0.5 - 0.5 * torch.cos(steps * torch.pi)

    found = side_by_side(lambda: vae.decode(latent), ramp, device)
    assert found.before
    assert found.after
    part = found.after / found.before
    return Answer(
        "one ramp, which is what a tile would spare, and the decode of a tile",
        f"{milliseconds(found.after)} of {milliseconds(found.before)}: {precise_percent(part)}",
        "true" if part >= 0.05 else "false",
        "free to have, and nothing to feel",
    )


@claim("Separable blending (1-D instead of 2-D) saves memory and time")
def separable_blending(device: str) -> Answer:
    vae, latent = network(device), tile(device)
    decoded = vae.decode(latent)
    y = torch.rand(decoded.shape[3], 1, device=device, dtype=latent.dtype)
    x = torch.rand(decoded.shape[4], device=device, dtype=latent.dtype)
    found = side_by_side(lambda: decoded * (y * x), lambda: decoded * y * x, device)
    whole_tile = side_by_side(lambda: vae.decode(latent), lambda: decoded * (y * x), device, 6)
    assert whole_tile.ratio
    return Answer(
        "a tile times one 2-D mask, and times two 1-D ramps",
        f"{faster(found)}; all blending is {percent(whole_tile.ratio)} of a tile's decode",
        gained(found, 1.01),
        "two passes over the tile instead of one" if found.ratio and found.ratio > 1 else "",
    )


compile_gain = unmeasured(
    "compile_gain",
    "torch.compile brings 15-40% after its first run",
    "other runs answer it: 2.1 times on a FLUX-shaped VAE of one shape (87.6 to 41.5 ms), nothing in 12 pairs on this one (docs/results.md, H200)",
)


@claim(
    "Larger tiles mean fewer of them and less blending; recommended: 1024 with 128 overlap",
    on=("cuda",),
)
def larger_tiles(device: str) -> Answer:
    vae, latent = network(device), whole(device, 2048)
    told = []
    for size, overlap in ((512, 64), (1024, 128), (2048, 128)):
        cut = Tiling(size, overlap, device)

        def run(cut: Tiling = cut) -> Tensor:
            return tiling.tiled_decode(vae, latent, cut)

        found = side_by_side(run, run, device, 1)
        assert found.before
        told.append(f"{size}/{overlap}: {milliseconds(found.before)}, {binary_bytes(peak(run))}")
    return Answer(
        "a clip of 5 frames 2048x2048 decoded by tiles of three sizes (the last is the whole)",
        "; ".join(told),
        "depends",
        "on free memory: the best are the fewest tiles that fit, which part `tiled_vae` plans",
    )


@claim("Turn tiling on only when it is needed: it costs time")
def tile_only_if_needed(device: str) -> Answer:
    vae, latent = network(device), whole(device)
    found = side_by_side(
        lambda: tiling.tiled_decode(vae, latent, usual(device)),
        lambda: vae.decode(latent),
        device,
        6,
    )
    return Answer(
        "a clip decoded in tiles as found, and at once", faster(found), gained(found, 1.01)
    )


@claim("Out of memory? Increase the overlap of the tiles")
def more_overlap(device: str) -> Answer:
    vae, latent = network(device), whole(device)
    size, told, times = usual(device).size, [], []
    for overlap in (size // 8, size // 2):
        cut = Tiling(size, overlap, device)

        def run(cut: Tiling = cut) -> Tensor:
            return tiling.tiled_decode(vae, latent, cut)

        found = side_by_side(run, run, device, 1)
        assert found.before
        memory = f", {binary_bytes(peak(run))}" if device == "cuda" else ""
        times.append(found.before)
        told.append(f"overlap {overlap}: {milliseconds(found.before)}{memory}")
    return Answer(
        f"tiles of {size} with two overlaps",
        "; ".join(told),
        "false" if times[1] > times[0] else "partly",
        "more tiles of the same size: it costs time and saves nothing",
    )


@claim("The optimizations reduce peak memory by 10-15%", on=("cuda",))
def less_memory(device: str) -> Answer:
    vae, latent = network(device), whole(device)
    weight = torch.rand(latent.shape[3] * 8, latent.shape[4] * 8, device=device, dtype=latent.dtype)
    before = peak(lambda: vae.decode(latent) * weight)
    after = peak(lambda: vae.decode(latent.contiguous()).mul_(weight))
    saved = 1 - after / before
    return Answer(
        "a decode at 1024x1024 and its weighting, out of place, and in place from a contiguous input",
        f"{binary_bytes(before)} and {binary_bytes(after)}: {percent(saved)} less",
        "true" if saved >= 0.1 else "partly" if saved >= 0.01 else "false",
        "the peak is inside the decoder",
    )


without_compile = unmeasured(
    "without_compile",
    "30-50% faster without compile",
    "each of its parts has its own row",
)


@claim("All of this without any loss of quality")
def no_quality_loss(device: str) -> Answer:
    vae, latent = network(device), whole(device)
    at_once = vae.decode(latent).float().clamp(-1, 1)
    tiled = tiling.tiled_decode(vae, latent, usual(device)).float().clamp(-1, 1)
    decibels = float(10 * (4 / (at_once - tiled).square().mean()).log10())
    return Answer(
        "the same latent decoded in tiles as found, and at once; random weights",
        f"{decibels:.1f} dB apart, {precise_percent(relative(tiled, at_once))} of its size",
        "false" if decibels < 60 else "true",
        "a tile has its own group norms and its own attention; part `tiled_vae` keeps those of the whole",
    )


is_ada = unmeasured(
    "is_ada",
    "The RTX 5070 Ti has the Ada architecture and 504 GB/s",
    "no such card here. By the vendor's data sheet it is Blackwell (sm_120) with 896 GB/s; `pitstop doctor` reads the device",
)


@claim(
    "torch.cuda.empty_cache() before the work helps against fragmentation and slowness",
    on=("cuda",),
)
def empty_cache(device: str) -> Answer:
    vae, latent = network(device), tile(device)

    def emptied() -> Tensor:
        torch.cuda.empty_cache()
        return vae.decode(latent)

    found = side_by_side(lambda: vae.decode(latent), emptied, device)
    return Answer(
        "a tile decoded, and the cache emptied before it", faster(found), gained(found, 1.01)
    )


@claim("Use an offload device between the phases to need less memory", on=("cuda",))
def offload(device: str) -> Answer:
    vae, latent = network(device), whole(device)
    here, away = usual(device), Tiling(512, 64, "cpu")
    found = side_by_side(
        lambda: tiling.tiled_decode(vae, latent, here),
        lambda: tiling.tiled_decode(vae, latent, away),
        device,
        6,
    )
    least = peak(lambda: tiling.tiled_decode(vae, latent, away))
    most = peak(lambda: tiling.tiled_decode(vae, latent, here))
    return Answer(
        "finished tiles gathered on the GPU, and in main memory; 1024x1024",
        f"{faster(found)}; {binary_bytes(most)} and {binary_bytes(least)}",
        "true" if least < 0.99 * most else "partly",
        "worth it once the result is large beside a tile",
    )


@claim("Future: flash attention for the attention blocks")
def flash_attention(device: str) -> Answer:
    side = 64 if device == "cuda" else 16
    dtype = next(network(device).parameters()).dtype
    q, k, v = (torch.randn(5, 1, side * side, 512, device=device, dtype=dtype) for _ in range(3))

    def by_hand() -> Tensor:
        out: Tensor = (q @ k.transpose(-2, -1) * 512**-0.5).softmax(-1) @ v
        return out

    found = side_by_side(by_hand, lambda: F.scaled_dot_product_attention(q, k, v), device)
    decode = side_by_side(lambda: network(device).decode(tile(device)), by_hand, device, 6)
    assert decode.ratio
    return Answer(
        f"attention over {side * side} positions by hand, and by scaled_dot_product_attention",
        f"{faster(found)}; by hand it is {percent(decode.ratio)} of a tile's decode",
        gained(found, 1.01),
    )


@claim("Future: channels-last and fused kernels", on=("cuda",))
def fused_kernels(device: str) -> Answer:
    vae, latent = network(device), tile(device)
    torch.manual_seed(0)
    other = VideoVae(options.FULL.vae).eval().requires_grad_(False).to(device, latent.dtype)
    accelerate_vae(other)
    found = side_by_side(lambda: vae.decode(latent), lambda: other.decode(latent), device)
    return Answer(
        "one tile of 512x512 decoded in bf16, as found and by part `accelerate_vae`",
        f"{faster(found)}; {precise_percent(relative(other.decode(latent), vae.decode(latent)))} apart",
        gained(found, 1.1),
        "the real gains of this VAE",
    )


@claim("Future: CUDA graphs for repeated operations", on=("cuda",))
def cuda_graphs(device: str) -> Answer:
    vae, latent = network(device), tile(device)
    vae.decode(latent)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        vae.decode(latent)
    found = side_by_side(lambda: vae.decode(latent), graph.replay, device)
    return Answer("one tile of 512x512 decoded, and replayed", faster(found), gained(found, 1.01))


@claim("Future: CUDA streams to work on tiles in parallel", on=("cuda",))
def streams(device: str) -> Answer:
    vae, latent = network(device), tile(device)
    many = [torch.cuda.Stream() for _ in range(2)]

    def in_turn() -> None:
        for _ in many:
            vae.decode(latent)

    def parallel() -> None:
        for stream in many:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                vae.decode(latent)
        for stream in many:
            torch.cuda.current_stream().wait_stream(stream)

    both = torch.cat([latent, latent])
    at_once = side_by_side(in_turn, lambda: vae.decode(both), device, 6)
    found = side_by_side(in_turn, parallel, device)
    return Answer(
        "two tiles of 512x512: one after the other, on two streams, and as one batch",
        f"streams {faster(found)}; one batch {faster(at_once)}",
        gained(found, 1.05),
    )
