"""Report 004: pose regression with Gaussian splatting (RAP)."""

import importlib.util
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from claim import Answer, claim, faster, gained, peak, relative, side_by_side, unmeasured
from torch import Tensor, nn
from torch.utils import checkpoint

from pitstop.core.units import binary_bytes, milliseconds, percent
from pitstop.workloads.pose_regression import data, model
from pitstop.workloads.pose_regression import faster as after_pit_stop
from pitstop.workloads.pose_regression.backbone import EfficientNet
from pitstop.workloads.pose_regression.quality import natural_statistics
from pitstop.workloads.pose_regression.splat import Camera, Gaussians, render

TITLE = "Pose regression with Gaussian splatting (RAP)"
Run = Callable[[], object]


@cache
def network(device: str) -> model.PoseNetwork:
    """The network at the size that suits the device."""
    torch.manual_seed(0)
    return model.PoseNetwork(model.FULL if device == "cuda" else model.SMALL).to(device)


def images(device: str, batch: int) -> Tensor:
    """Photographs at the size that suits the device."""
    height, width = (240, 427) if device == "cuda" else (96, 128)
    return torch.rand(batch, 3, height, width, device=device)


def step_of(device: str, pictures: Tensor, amp: bool = False) -> Run:
    """Forward and backward of the network."""

    def run() -> None:
        network(device).zero_grad()
        with torch.autocast(device, torch.float16, enabled=amp):
            _, poses = network(device)(pictures)
        poses.float().square().mean().backward()

    return run


@cache
def room(device: str) -> tuple[Gaussians, Camera, Tensor]:
    """A room of Gaussians, its camera, and poses to look from."""
    layout = data.Layout(
        "claims", Camera(96, 128, 100.0), 8_000, train_frames=(4, 4), test_frames=(4,)
    )
    folder = data.prepare(layout, None, device)
    poses = torch.from_numpy(data.SevenScenes(folder, train=True).poses).float().view(-1, 3, 4)
    return Gaussians.load(folder / "gaussians.npz").to(device), data.load_camera(folder), poses


@claim("RVS generation: synthesizing views can be slow")
def views_are_slow(device: str) -> Answer:
    gaussians, camera, poses = room(device)
    light = torch.ones(len(poses), device=device)

    def one_by_one() -> None:
        for pose in poses:
            picture = render(gaussians, camera, pose).permute(1, 2, 0).cpu().numpy()
            natural_statistics(picture)

    def at_once() -> None:
        pictures = after_pit_stop.render_views(gaussians, camera, poses, light)[:, :3]
        after_pit_stop.natural_statistics(pictures).cpu()

    step = step_of(device, images(device, 8))
    found = side_by_side(one_by_one, at_once, device, 6)
    whole = side_by_side(step, one_by_one, device, 6)
    assert whole.ratio
    return Answer(
        f"{len(poses)} views of 96x128 rendered and scored one by one, and at once; and a step of 8 images",
        f"{faster(found)}; one view with its score takes {percent(whole.ratio / len(poses))} of a step",
        "true",
        "a step needs four new views or more, as some are thrown away",
    )


@claim("Data loading: images from disk are a bottleneck; more workers, pin_memory", on=("cpu",))
def data_loading(device: str) -> Answer:
    layout = data.SMALL
    folder = data.prepare(layout, None, "cpu")
    photographs = data.SevenScenes(folder, train=True)
    held = torch.stack([photographs[index][0] for index in range(len(photographs))])
    order = np.arange(4)
    found = side_by_side(step_of(device, images(device, 4)), lambda: held[order], device, 6)
    assert found.ratio
    return Answer(
        "a batch indexed out of memory, where all training data is, and a forward and backward; small size",
        f"{percent(found.ratio)} of the step",
        "false" if found.ratio < 0.05 else "partly",
        "no training image is read from disk after the start: no worker can be faster",
    )


@claim("Feature extraction by the EfficientNet backbone is a bottleneck")
def backbone(device: str) -> Answer:
    net, pictures = network(device), images(device, 8)

    def features(kind: type) -> Run:
        def run() -> None:
            net.backbone.__class__ = kind
            net.zero_grad()
            found = net.backbone.endpoints(pictures)
            (found["reduction_3"].sum() + found["reduction_4"].sum()).backward()

        return run

    short = side_by_side(features(EfficientNet), features(after_pit_stop.ShortBackbone), device, 6)
    net.backbone.__class__ = EfficientNet
    whole = side_by_side(step_of(device, pictures), features(EfficientNet), device, 6)
    net.backbone.__class__ = EfficientNet
    assert whole.ratio
    return Answer(
        "the backbone in a forward and backward, as found, and ended with the last feature that is read",
        f"{percent(whole.ratio)} of the step; ended earlier {faster(short)}",
        "partly" if whole.ratio < 0.5 else "true",
        "all that comes after the last feature read is for nobody (PIT602)",
    )


@claim("Transformer encoding: multi-head attention is a bottleneck")
def attention(device: str) -> Answer:
    net, pictures = network(device), images(device, 8)

    def layers(kind: type) -> Run:
        run = step_of(device, pictures)

        def each_time() -> None:
            for each in net.modules():
                if isinstance(each, model.EncoderLayer):
                    each.__class__ = kind
            run()

        return each_time

    found = side_by_side(layers(model.EncoderLayer), layers(after_pit_stop.FusedLayer), device, 6)
    layers(model.EncoderLayer)()
    return Answer(
        "forward and backward with the attention weights that nobody reads, and without",
        faster(found),
        "partly" if found.verdict == "better" else "false",
        "what is asked for beside it, not attention itself (PIT607)",
    )


@claim("Memory transfers between CPU and GPU", on=("cuda",))
def transfers(device: str) -> Answer:
    pageable = torch.rand(32, 3, 240, 427)
    pinned = pageable.pin_memory()
    step = step_of(device, images(device, 16), amp=True)
    copies = side_by_side(
        lambda: pageable.to(device), lambda: pinned.to(device, non_blocking=True), device
    )
    whole = side_by_side(step, lambda: pageable.to(device), device, 6)
    assert whole.ratio
    return Answer(
        "a step's 32 images copied from pageable and from pinned memory; and forward and backward of 16",
        f"{faster(copies)}; pageable it is {percent(whole.ratio)} of that forward and backward",
        "partly" if whole.ratio < 0.1 else "true",
    )


@claim("Quick win: increase the batch size")
def larger_batches(device: str) -> Answer:
    size = 8 if device == "cuda" else 4
    one, two = step_of(device, images(device, size)), step_of(device, images(device, 2 * size))

    def twice() -> None:
        one()
        one()

    found = side_by_side(twice, two, device, 6)
    return Answer(
        f"two forward and backward of {size} images, and one of {2 * size}",
        faster(found),
        gained(found, 1.05),
        "another batch is another training, too",
    )


@claim("Mixed precision is on already; verify that it is working", on=("cuda",))
def mixed_precision(device: str) -> Answer:
    pictures = images(device, 16)
    found = side_by_side(step_of(device, pictures), step_of(device, pictures, amp=True), device, 6)
    return Answer(
        "forward and backward of 16 images in fp32 (TF32 products as found) and with fp16 AMP",
        faster(found),
        gained(found, 1.05),
        "such a step waits for the launch of its kernels",
    )


compile_helps = unmeasured(
    "compile_helps",
    "torch.compile() is on; check that it is helping",
    "as found no step was finished within 450 s on the H200 (docs/results.md)",
)


@claim("Refresh random views less often, fewer attempts, cache rendered views")
def fewer_views(device: str) -> Answer:
    gaussians, camera, poses = room(device)
    found = side_by_side(
        lambda: render(gaussians, camera, poses[0]),
        lambda: render(gaussians, camera, poses[0]).clone(),
        device,
        6,
    )
    assert found.before
    return Answer(
        "one view of 96x128",
        f"{milliseconds(found.before)}: every view that is not made saves that",
        "depends",
        "on what the training needs: fewer views change what is learned; made at once they need "
        "not be fewer (first row)",
    )


@claim("Use gradient checkpointing (as a memory optimization)")
def checkpointing(device: str) -> Answer:
    torch.manual_seed(0)
    block = nn.Sequential(
        *(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6))
    ).to(device)
    x = torch.rand(2048 if device == "cuda" else 256, 256, device=device, requires_grad=True)

    def kept() -> None:
        block(x).sum().backward()

    def again() -> None:
        y = x
        for each in block:
            y = checkpoint.checkpoint(each, y, use_reentrant=False)
        y.sum().backward()

    found = side_by_side(kept, again, device, 6)
    memory = (
        f"; {binary_bytes(peak(kept))} and {binary_bytes(peak(again))}" if device == "cuda" else ""
    )
    return Answer(
        "six feed-forward blocks, activations kept and computed again",
        f"{faster(found)}{memory}",
        "depends",
        "it pays time for memory: good only where memory is short",
    )


@claim("Use torch.cuda.empty_cache() strategically", on=("cuda",))
def empty_cache(device: str) -> Answer:
    step = step_of(device, images(device, 8), amp=True)

    def emptied() -> None:
        step()
        torch.cuda.empty_cache()

    found = side_by_side(step, emptied, device, 6)
    return Answer(
        "a forward and backward, and the same with it", faster(found), gained(found, 1.01)
    )


@claim("Use tensor operations instead of loops")
def instead_of_loops(device: str) -> Answer:
    gaussians, camera, poses = room(device)
    light = torch.ones(len(poses), device=device)
    looped = torch.stack([render(gaussians, camera, pose) for pose in poses])
    at_once = after_pit_stop.render_views(gaussians, camera, poses, light)[:, :3]
    found = side_by_side(
        lambda: [render(gaussians, camera, pose) for pose in poses],
        lambda: after_pit_stop.render_views(gaussians, camera, poses, light),
        device,
        6,
    )
    return Answer(
        f"{len(poses)} views in a loop, and at once (in two lights, as fast.py needs them)",
        f"{faster(found)}; {relative(at_once, looped):.1e} apart",
        gained(found, 1.05),
        "on a CPU a loop over views costs nothing" if device == "cpu" else "",
    )


@claim("Profile with python -m torch.utils.bottleneck", on=("cpu",))
def bottleneck(device: str) -> Answer:
    there = importlib.util.find_spec("torch.utils.bottleneck") is not None
    return Answer(
        f"looked for the module in torch {torch.__version__}",
        "there" if there else "gone",
        "true" if there else "false",
        "" if there else "`pitstop profile` does its job",
    )


quantise = unmeasured(
    "quantise",
    "Model quantization, TensorRT",
    "for inference, which no workload does alone",
)


smaller_backbone = unmeasured(
    "smaller_backbone",
    "A smaller EfficientNet, fewer layers, progressive resolution",
    "it changes what is learned: research, not repair",
)
