"""How far ``memory_estimate`` is off: twenty cases against ``torch.cuda.max_memory_allocated``.

Run ``python benchmarks/memory.py`` on a GPU machine, under a minute: each case is estimated, then
three real steps are taken. "cuda" are fake CUDA tensors, "cpu" is the way of a machine without a
GPU. ``--only vit`` runs the cases with that in their names. ``--operations`` measures what single
operations take inside themselves instead, which is where the table in ``parts/memory/workspace.py``
comes from. ``--small`` shrinks all cases, and compares with living bytes where there is no GPU.
"""

import argparse
import gc
import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pitstop import internals
from pitstop.parts.memory import estimate as estimating
from pitstop.parts.peak import peak_of

MIB = 2**20
STEPS = 3
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
BF16, FP16 = torch.bfloat16, torch.float16


@dataclass(slots=True)
class Case:
    """One model, its batch, and how it is stepped; without an optimizer it is a call."""

    model: nn.Module
    batch: Any
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    autocast: torch.dtype | None = None
    accumulate: int = 1


def adamw(parameters: Any) -> torch.optim.Optimizer:
    """As most train."""
    return torch.optim.AdamW(parameters, 1e-4)


def fused(parameters: Any) -> torch.optim.Optimizer:
    """In one kernel, without temporary memory."""
    return torch.optim.AdamW(parameters, 1e-4, fused=GPU)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    """One moment."""
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


class Bottleneck(nn.Module):
    """Of a ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)),
            *(nn.ReLU(True), nn.Conv2d(width, 4 * width, 1, bias=False)),
            nn.BatchNorm2d(4 * width),
        )
        self.short: nn.Module = nn.Identity()
        if inputs != 4 * width:
            self.short = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )
        self.relu = nn.ReLU(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Beside a shortcut."""
        result: torch.Tensor = self.relu(self.body(x) + self.short(x))
        return result


def resnet(small: bool) -> nn.Module:
    """ResNet-50, 25.6 M parameters."""
    width = 8 if small else 64
    layers: list[nn.Module] = [
        *(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = width
    for number, depth in enumerate((3, 4, 6, 3)):
        for block in range(1 if small else depth):
            stride = 2 if number and not block else 1
            layers.append(Bottleneck(inputs, width * 2**number, stride))
            inputs = 4 * width * 2**number
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Vit(nn.Module):
    """ViT-B/16 from torch's own layers, 86 M parameters."""

    def __init__(self, small: bool, checkpoints: bool = False) -> None:
        super().__init__()
        width, heads, depth = (64, 4, 2) if small else (768, 12, 12)
        self.checkpoints = checkpoints
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.place = nn.Parameter(torch.zeros(1, (4 if small else 14) ** 2, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                *(width, heads, 4 * width, 0.1),
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        result: torch.Tensor = self.head(x.mean(1))
        return result


def pictures(count: int, small: bool, size: int = 224, channels: int = 3) -> torch.Tensor:
    """Noise."""
    side = 64 if small else size
    return torch.randn(min(count, 2) if small else count, channels, side, side)


def vit(small: bool, count: int, checkpoints: bool = False, **how: Any) -> Case:
    """On ImageNet's size."""
    return Case(Vit(small, checkpoints), pictures(count, small), adamw, **how)


def unet(small: bool, optimizer: Any, autocast: Any = None) -> Case:
    """The U-Net of Stable Diffusion 1.5; trained with half its widths."""
    from diffusers import UNet2DConditionModel  # noqa: PLC0415 where it is installed

    widths = (32, 64, 64, 64) if small else (160, 320, 640, 640)
    model = UNet2DConditionModel(
        block_out_channels=widths, cross_attention_dim=64 if small else 768, norm_num_groups=16
    )
    size, count = (16, 1) if small else (64, 4)
    batch = {
        "sample": torch.randn(count, 4, size, size),
        "timestep": torch.ones(count),
        "encoder_hidden_states": torch.randn(count, 77, 64 if small else 768),
    }
    if optimizer is None:
        model, batch = model.half(), {name: each.half() for name, each in batch.items()}
    return Case(model, batch, optimizer, autocast)


def plain_unet(small: bool) -> Case:
    """The U-Net of DDPM, fp32."""
    from diffusers import UNet2DModel  # noqa: PLC0415 likewise

    widths = (32, 32, 64, 64) if small else (128, 128, 256, 256)
    kinds = ("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D")
    ups = ("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D")
    model = UNet2DModel(32, block_out_channels=widths, down_block_types=kinds, up_block_types=ups)
    x = pictures(2 if small else 32, small, 32)
    return Case(model, {"sample": x, "timestep": torch.ones(len(x))}, fused)


def vae(small: bool, optimizer: Any, dtype: torch.dtype | None = None) -> Case:
    """The VAE of Stable Diffusion."""
    from diffusers import AutoencoderKL  # noqa: PLC0415 likewise

    levels = 2 if small else 4
    model = AutoencoderKL(
        block_out_channels=(32, 32) if small else (128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        layers_per_block=2,
    )
    x = pictures(2, small, 256)
    if optimizer is not None:
        return Case(model, x, optimizer, dtype)
    return Case(model.to(dtype), x.to(dtype))


def workload(name: str, module: str) -> Any:
    """A module of one of the five systems."""
    return importlib.import_module(f"pitstop.workloads.{name}.{module}")


def frame_interpolation(small: bool) -> Case:
    """One of its two optimizers."""
    config = workload("frame_interpolation", "config")
    settings = config.load_config(config.FOLDER / ("small.yaml" if small else "full.yaml"))
    model = workload("frame_interpolation", "model").VQFlowNet(settings.model)
    return Case(model, tuple(pictures(4, small, 256) for _ in range(3)), adamw)


def spike_deblur(small: bool) -> Case:
    """Window attention with checkpoints."""
    settings = workload("spike_deblur", "settings")
    folder = Path(settings.__file__).parent
    name = "gopro_spike_small.yaml" if small else "gopro_spike.yaml"
    chosen = settings.load_settings(folder / name)
    model = workload("spike_deblur", "model").SpikeVRT(chosen.model)
    size, frames = chosen.data.crop_size, chosen.data.clip_len
    clip = torch.rand(1, frames, 3 + chosen.model.voxel_bins, size, size)
    return Case(model, clip, adamw, FP16)


def tiled_vae(small: bool) -> Case:
    """A tile of the causal VAE, decoded and encoded."""
    options = workload("tiled_vae", "options")
    chosen = options.SMALL if small else options.FULL
    model = workload("tiled_vae", "model").VideoVae(chosen.vae).to(BF16)
    return Case(model, torch.randn(1, 3, 5, chosen.crop, chosen.crop, dtype=BF16))


def lora_diffusion(small: bool) -> Case:
    """The transformer, of which a LoRA is trained."""
    flow = workload("lora_diffusion", "model")
    size = flow.SMALL if small else flow.FULL
    model = flow.transformer(size).to(size.dtype).requires_grad_(requires_grad=False)
    model.add_adapter(flow.lora_config(16))
    for each in model.parameters():
        if each.requires_grad:
            each.data = each.data.float()
    side, words = (8, 32) if small else (64, 512)
    batch = {
        "hidden_states": torch.randn(2, side * side // 4, 64, dtype=size.dtype),
        "timestep": torch.ones(2, dtype=size.dtype),
        "guidance": torch.ones(2),
        "pooled_projections": torch.randn(2, size.clip_width, dtype=size.dtype),
        "encoder_hidden_states": torch.randn(2, words, size.t5_width, dtype=size.dtype),
        "txt_ids": torch.zeros(words, 3),
        "img_ids": torch.zeros(side * side // 4, 3),
    }
    return Case(model, batch, adamw, BF16)


def pose_regression(small: bool) -> Case:
    """EfficientNet features and two transformers."""
    module = workload("pose_regression", "model")
    model = module.PoseNetwork(module.SMALL if small else module.FULL)
    return Case(model, pictures(16, small, 256), adamw, FP16)


def channels_last(case: Case) -> Case:
    """The same in cuDNN's own layout."""
    case.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    case.batch = case.batch.to(memory_format=torch.channels_last)
    return case


CASES: dict[str, Callable[[bool], Case]] = {
    "resnet fp32": lambda small: Case(resnet(small), pictures(32, small), momentum),
    "resnet bf16": lambda small: Case(resnet(small), pictures(64, small), momentum, BF16),
    "resnet bf16 channels-last": lambda small: channels_last(
        Case(resnet(small), pictures(64, small), momentum, BF16)
    ),
    "resnet call": lambda small: Case(resnet(small).eval(), pictures(64, small)),
    "vit fp32": lambda small: vit(small, 16),
    "vit bf16": lambda small: vit(small, 64, autocast=BF16),
    "vit checkpoints": lambda small: vit(small, 64, checkpoints=True, autocast=BF16),
    "vit accumulate": lambda small: vit(small, 16, accumulate=4, autocast=BF16),
    "vit adamw, one picture": lambda small: vit(small, 1),
    "unet bf16": lambda small: unet(small, adamw, BF16),
    "unet fp32": lambda small: unet(small, adamw),
    "unet fp16 call": lambda small: unet(small, None),
    "unet ddpm": plain_unet,
    "vae bf16": lambda small: vae(small, adamw, BF16),
    "vae fp16 call": lambda small: vae(small, None, FP16 if GPU else BF16),
    "frame_interpolation": frame_interpolation,
    "spike_deblur": spike_deblur,
    "tiled_vae": tiled_vae,
    "lora_diffusion": lora_diffusion,
    "pose_regression": pose_regression,
}


def loss_of(output: Any) -> torch.Tensor:
    """A number that all of what the model returns goes into."""
    floats = [
        each
        for each in internals.tree_leaves(dict(output) if hasattr(output, "items") else output)
        if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    return sum((each.float().square().mean() for each in floats[1:]), floats[0].float().mean())


def called(case: Case) -> Any:
    """With its batch."""
    batch = case.batch
    if isinstance(batch, dict):
        return case.model(**batch)
    return case.model(*batch) if isinstance(batch, tuple) else case.model(batch)


def take_steps(case: Case, optimizer: torch.optim.Optimizer | None) -> None:
    """In earnest."""
    autocast = torch.autocast(DEVICE.type, case.autocast) if case.autocast else nullcontext()
    if optimizer is None:
        with torch.no_grad():
            called(case)
        return
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(case.accumulate):
            with autocast:
                loss = loss_of(called(case))
            (loss / case.accumulate if case.accumulate > 1 else loss).backward()
            del loss
        optimizer.step()


def measured(case: Case) -> int:
    """The peak, from a clean start."""
    gc.collect()
    if GPU:
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    case.model.to(DEVICE)
    case.batch = internals.tree_map(lambda each: each.to(DEVICE), case.batch)
    optimizer = None
    if case.optimizer is not None:
        optimizer = case.optimizer([each for each in case.model.parameters() if each.requires_grad])
    if GPU:
        take_steps(case, optimizer)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    tensors = [each for each in internals.tree_leaves(case.batch) if torch.is_tensor(each)]
    tensors += [*case.model.parameters(), *case.model.buffers()]
    standing = {each.untyped_storage().data_ptr(): each.nbytes for each in tensors}
    most = peak_of(lambda: take_steps(case, optimizer), DEVICE).most_bytes
    return sum(standing.values()) + most


def estimated(case: Case, device: str) -> dict[str, Any]:
    """What we say, before anything is on the GPU."""
    begun_s = time.perf_counter()
    optimizer = None
    if case.optimizer is not None:
        optimizer = case.optimizer([each for each in case.model.parameters() if each.requires_grad])
    original = estimating._device
    estimating._device = lambda on: device  # noqa: ARG005 mypy compares names
    try:
        found = estimating.memory_estimate(
            case.model,
            case.batch,
            optimizer,
            loss=loss_of if optimizer else None,
            accumulate=case.accumulate,
            autocast=case.autocast,
            on="cuda" if GPU else "cpu",
        )
    finally:
        estimating._device = original
    return {
        "bytes": found.peak_bytes,
        "reserved": found.reserved_bytes,
        "phase": found.account.phase,
        "kinds": found.kinds,
        "s": time.perf_counter() - begun_s,
    }


def run_cases(only: str, small: bool, ways: list[str]) -> list[dict[str, Any]]:
    """A row for each."""
    rows = []
    print(f"{'case':28}{'measured':>10}" + "".join(f"{way:>12}{'':>9}{'':>7}" for way in ways))
    for name, make in CASES.items():
        if only not in name:
            continue
        torch.manual_seed(0)
        row: dict[str, Any] = {"case": name}
        try:
            case = make(small)
            case.model.train(case.optimizer is not None)
            for way in ways:
                row[way] = estimated(case, way)
            row["measured"] = measured(case)
        except Exception as error:  # noqa: BLE001 the other cases are worth having
            said = str(error).splitlines() or [""]
            print(f"{name:28}{type(error).__name__}: {said[0][:120]}")
            row["failed"] = f"{type(error).__name__}: {said[0]}"
        else:
            text = f"{name:28}{row['measured'] / MIB:>10.1f}"
            for way in ways:
                row[way]["error"] = row[way]["bytes"] / row["measured"] - 1
                text += f"{row[way]['bytes'] / MIB:>12.1f}{row[way]['error']:>+9.1%}"
                text += f"{row[way]['s']:>6.1f}s"
            print(f"{text}  {row[ways[0]]['phase']}", flush=True)
        rows.append(row)
        case = None  # type: ignore[assignment]
    return rows


def summarise(rows: list[dict[str, Any]], ways: list[str]) -> None:
    """Median and worst."""
    for way in ways:
        errors = [row[way]["error"] for row in rows if "measured" in row]
        if errors:
            median = statistics.median(abs(each) for each in errors)
            print(
                f"{way}: median error {median:.1%}, lowest {min(errors):+.1%}, "
                f"highest {max(errors):+.1%}, {len(errors)} cases"
            )


def operations(small: bool) -> Iterator[dict[str, Any]]:
    """Convolutions and attention, alone: what they take beside inputs and results."""
    side = 16 if small else 128
    layouts = {"first": torch.contiguous_format, "last": torch.channels_last}
    for dtype in (torch.float32, FP16, BF16):
        for channels, kernel in ((64, 3), (256, 3), (256, 1)):
            for name, layout in layouts.items():
                x = torch.randn(8, channels, side, side, device=DEVICE, dtype=dtype)
                x = x.to(memory_format=layout).requires_grad_()
                conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
                conv = conv.to(DEVICE, dtype, memory_format=layout)  # type: ignore[call-overload]
                yield _operation(f"conv {kernel} {channels} {name} {dtype}", conv, x)
        if dtype != torch.float32:
            q = torch.randn(4, 16, 16 * side, 64, device=DEVICE, dtype=dtype, requires_grad=True)
            yield _operation(f"attention {dtype}", _attend, q)


def _attend(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(x, x, x)


def _operation(name: str, call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
    row: dict[str, Any] = {}
    for _ in range(2):
        x.grad = None
        forward = peak_of(lambda: call(x), DEVICE)
        gradient = torch.ones_like(forward.result)
        inside = forward.most_bytes - forward.left_bytes
        backward = peak_of(partial(forward.result.backward, gradient), DEVICE)
        row = {
            "operation": name,
            "x": x.nbytes,
            "forward": inside,
            "backward": backward.most_bytes - backward.left_bytes,
        }
        del forward, backward, gradient
    print(
        f"{name:40} x {row['x'] / MIB:8.1f} forward +{row['forward'] / MIB:8.1f} "
        f"backward +{row['backward'] / MIB:8.1f} MiB",
        flush=True,
    )
    return row


def main() -> None:
    """Run, print, and write rows as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--both", action="store_true", help="also as on a machine without a GPU")
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.operations:
        rows = list(operations(options.small))
    else:
        ways = ["cuda", "cpu"] if GPU and options.both else ["cuda"] if GPU else ["cpu"]
        rows = run_cases(options.only, options.small, ways)
        summarise(rows, ways)
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
