"""Time every part against stock PyTorch in the same run and against the hardware's floor.

Run ``python benchmarks/parts.py [--check] [--only dsepconv|norm|vae|tiled]`` on a GPU machine. The
floor is the fewest bytes over the copy bandwidth measured here, or the operations over the matrix
rate. "ours" and "stock" are device time, launches queued ahead; "wall" is ours called in a loop, so
that CPU time counts where it is longer. ``--check`` compares with the twins first. The VAE rows
need diffusers.
"""

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from pitstop.parts import accelerate_vae, dsepconv, group_norm_silu
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu_twin

ROUNDS = 30
FLUSH_BYTES = 256 << 20  # more than any L2, rewritten before every round
NORM_SHAPES = ((512, 256), (256, 512), (128, 1024))  # channels, side
QUEUE_CYCLES = 2_000_000  # about 1 ms of device sleep, during which the CPU queues the launches
Run = Callable[..., Any]


class Row(NamedTuple):
    """One measured line: times in ms, the floor, and what was promised."""

    name: str
    ours_ms: float
    wall_ms: float
    stock_ms: float
    floor_ms: float
    target: str


def time_ms(run: Run, rounds: int = ROUNDS) -> float:
    """Median device time of one call, caches flushed before each."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    for _ in range(3):
        run()
    samples = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        torch.cuda._sleep(QUEUE_CYCLES)
        start.record()
        run()
        end.record()
        end.synchronize()
        samples.append(float(start.elapsed_time(end)))
    return statistics.median(samples)


def wall_ms(run: Run, calls: int = 50) -> float:
    """Wall time of one call in a loop that waits only at its end."""
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / calls


def row(name: str, ours: Run, stock: Run, floor_ms: float, target: str) -> Row:
    """Time both and put them on one line."""
    return Row(name, time_ms(ours), wall_ms(ours), time_ms(stock, 5), floor_ms, target)


def training_step(function: Run, leaves: list[torch.Tensor], grad: torch.Tensor) -> object:
    """Forward and backward to every leaf that wants a gradient."""
    return torch.autograd.grad(function(*leaves), [x for x in leaves if x.requires_grad], grad)


def cpu_us(run: Run, calls: int = 200) -> float:
    """CPU time of one call that nobody waits for."""
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * spent / calls


def copy_bytes_per_ms() -> float:
    """Bytes read plus bytes written by a large copy, per ms."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / time_ms(lambda: target.copy_(source), 10)


def fields(samples: int, height: int, width: int, size: int = 5) -> list[torch.Tensor]:
    """Random arguments of ``dsepconv`` with offsets of a pixel."""
    shapes = [(3, size - 1)] + [(size, 0)] * 2 + [(size * size, 0)] * 3
    return [
        torch.randn(samples, planes, height + more, width + more, device="cuda")
        for planes, more in shapes
    ]


def dsepconv_rows(bandwidth: float) -> Iterator[Row]:
    """Deformable separable convolution, without the image's gradient as the original."""
    for samples, height, width, promised in ((10, 256, 256, 0.30), (1, 1080, 1920, 1.0)):
        inputs = fields(samples, height, width)
        name = f"dsepconv ({samples},3,{height},{width})"
        moved = sum(each.nbytes for each in inputs)
        image = samples * 3 * height * width * 4
        ours, twin = dsepconv.dsepconv, dsepconv.dsepconv_twin
        floor_ms = (moved + image) / bandwidth
        yield row(f"{name} forward", partial(ours, *inputs), partial(twin, *inputs), floor_ms, "")
        leaves = [inputs[0], *(each.clone().requires_grad_() for each in inputs[1:])]
        grad = torch.randn(samples, 3, height, width, device="cuda")
        yield row(
            f"{name} forward + backward",
            partial(training_step, ours, leaves, grad),
            partial(training_step, twin, leaves, grad),
            (3 * moved + 2 * image) / bandwidth,
            f"<= {promised:.2f} ms",
        )


def dsepconv_cpu() -> str:
    """CPU cost of one call, with and without autograd, on an input that takes no device time."""
    inputs = fields(1, 8, 8)
    leaves = [inputs[0], *(each.clone().requires_grad_() for each in inputs[1:])]
    plain = cpu_us(lambda: dsepconv.dsepconv(*inputs))
    recorded = cpu_us(lambda: dsepconv.dsepconv(*leaves))
    yardstick = cpu_us(lambda: F.silu(inputs[0]))
    return (
        f"dsepconv CPU per call: {plain:.0f} us, {recorded:.0f} us recorded by autograd "
        f"(target < 40; one F.silu takes {yardstick:.0f} us on this machine)"
    )


def norm_rows(bandwidth: float) -> Iterator[Row]:
    """GroupNorm(32) + SiLU, batch 1, bf16, both layouts, forward and training."""
    for channels, side in NORM_SHAPES:
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(1, channels, side, side, device="cuda", dtype=torch.bfloat16)
            x = x.to(memory_format=layout)
            weight, bias = torch.randn(2, channels, device="cuda", dtype=x.dtype).unbind()
            name = f"norm {channels}ch {side}x{side} {'NHWC' if x.stride(1) == 1 else 'NCHW'}"

            leaves = [x, weight, bias]
            yield row(
                name,
                partial(_ours, *leaves),
                partial(_stock, *leaves),
                2 * x.nbytes / bandwidth,
                "<= 2.2 x floor",
            )
            leaves = [each.detach().clone().requires_grad_() for each in leaves]
            grad = torch.randn_like(x)
            yield row(
                f"{name} training",
                partial(training_step, _ours, leaves, grad),
                partial(training_step, _stock, leaves, grad),
                5 * x.nbytes / bandwidth,
                ">= 4 x stock",
            )


def _ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return group_norm_silu(x, 32, weight, bias, 1e-6)


def _stock(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.silu(F.group_norm(x, 32, weight, bias, 1e-6))


def flux_vae() -> Any:
    """A FLUX-shaped AutoencoderKL (83.8 M parameters) with random weights."""
    diffusers: Any = importlib.import_module("diffusers")
    return diffusers.AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=16,
        layers_per_block=2,
        use_quant_conv=False,
        use_post_quant_conv=False,
    ).eval()


def vae_rows() -> Iterator[Row]:
    """Decode and encode 1024 x 1024 in bf16; prints each step's gain and the error on the way."""
    torch.manual_seed(0)
    vae: Any = flux_vae().cuda()
    latent = torch.randn(1, 16, 128, 128, device="cuda")
    image = torch.rand(1, 3, 1024, 1024, device="cuda") * 2 - 1
    exact = vae.decode(latent).sample, vae.encode(image).latent_dist.mean
    vae.to(torch.bfloat16)
    latent, image = latent.bfloat16(), image.bfloat16()
    runs: tuple[Run, Run]
    runs = (lambda: vae.decode(latent).sample, lambda: vae.encode(image).latent_dist.mean)

    def errors() -> str:
        return ", ".join(f"{error(run(), e):.4f}" for run, e in zip(runs, exact, strict=True))

    print(f"error against fp32, decode and encode: stock bf16 {errors()}", end="")
    stock = [time_ms(run, 10) for run in runs]
    undo = accelerate_vae(vae, measure=runs[0])
    print(f"; accelerated {errors()}")
    print(undo)
    eager = [(time_ms(run, 10), wall_ms(run, 10)) for run in runs]
    torch.cuda.reset_peak_memory_stats()
    runs[0]()
    print(f"peak memory of one decode: {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
    undo()
    accelerate_vae(vae, compile=True)
    compiled = [(time_ms(run, 10), wall_ms(run, 10)) for run in runs]
    floors = (13.3, 6.2)  # 10.47 and 4.88 TFLOP at an H200's 790 TFLOP/s
    for index, (name, promised) in enumerate((("decode", (26, 22)), ("encode", (14, 14)))):
        for made, ms, limit in zip(("eager", "compiled"), (eager, compiled), promised, strict=True):
            label = f"VAE {name} 1024x1024 {made}"
            yield Row(label, *ms[index], stock[index], floors[index], f"<= {limit} ms")


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative error in the Euclidean norm."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


def check() -> None:
    """Compare results and gradients with the twins; raise on the first that is off."""
    inputs = [each.requires_grad_() for each in fields(2, 61, 45)]
    inputs[3].data *= 5
    found = dsepconv.dsepconv(*inputs)
    expected = dsepconv.dsepconv_twin(*inputs)
    grad = torch.randn_like(found)
    pairs = [("dsepconv", found, expected)]
    of_found, of_expected = (torch.autograd.grad(o, inputs, grad) for o in (found, expected))
    pairs += [("dsepconv gradient", *pair) for pair in zip(of_found, of_expected, strict=True)]
    x = torch.randn(2, 96, 33, 35, device="cuda") * 3 + 50
    for layout in (torch.contiguous_format, torch.channels_last):
        y = x.to(memory_format=layout).requires_grad_()
        outputs = [f(y, 8) for f in (group_norm_silu, group_norm_silu_twin)]
        pairs.append(("norm", outputs[0], outputs[1]))
        grads = [torch.autograd.grad(o, y, torch.ones_like(y) * y.detach())[0] for o in outputs]
        pairs.append(("norm gradient", grads[0], grads[1]))
    for name, one, other in pairs:
        off = error(one, other)
        print(f"check {name}: {off:.1e}")
        assert off < 1e-4, name


def print_table(rows: list[Row]) -> None:
    """One line per measurement; ratios to stock and to the floor."""
    heads = ("ours ms", "wall ms", "stock ms", "gain", "floor ms", "x floor")
    print(" " * 44 + "".join(f"{head:>9s}" for head in heads) + "  target")
    for each in rows:
        gain, over = each.stock_ms / each.ours_ms, each.ours_ms / each.floor_ms
        numbers = (each.ours_ms, each.wall_ms, each.stock_ms, gain, each.floor_ms, over)
        print(f"{each.name:44s}" + "".join(f"{n:9.3f}" for n in numbers) + f"  {each.target}")


def main() -> int:
    """Measure what was asked for and print the table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the twins first")
    parser.add_argument("--only", choices=("dsepconv", "norm", "vae", "tiled"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/parts.py times GPU kernels: run it on a machine with a CUDA GPU")
        return 2
    if options.check:
        check()
    wanted = [options.only] if options.only else ["dsepconv", "norm", "vae", "tiled"]
    bandwidth = copy_bytes_per_ms()
    print(f"{torch.cuda.get_device_name()}: copy {bandwidth / 1e9:.2f} TB/s")
    rows: list[Row] = []
    if "dsepconv" in wanted:
        rows += dsepconv_rows(bandwidth)
        print(dsepconv_cpu())
    if "norm" in wanted:
        rows += norm_rows(bandwidth)
    if "vae" in wanted and importlib.util.find_spec("diffusers"):
        with torch.no_grad():
            rows += vae_rows()
    if "tiled" in wanted and importlib.util.find_spec("diffusers"):
        from tiled_vae import tiled_rows  # noqa: PLC0415 (beside this file)

        with torch.no_grad():
            rows += [Row(*each) for each in tiled_rows(flux_vae)]
    print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
