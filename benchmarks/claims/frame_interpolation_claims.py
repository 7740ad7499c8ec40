"""Report 000: training a frame-interpolation autoencoder (LDMVFI)."""

import time
import warnings

import torch
import torch.nn.functional as F
from claim import Answer, claim, faster, relative, side_by_side, unmeasured
from torch import Tensor

from pitstop.parts.dsepconv import dsepconv, dsepconv_twin
from pitstop.workloads.frame_interpolation import config, data, decoder, fast, model, slow
from pitstop.workloads.frame_interpolation.faster import Network

TITLE = "Frame interpolation (LDMVFI)"
IMAGE, PREVIOUS, NEXT = "image", "prev_frame", "next_frame"


def network(device: str) -> tuple[model.VQFlowNet, tuple[Tensor, Tensor, Tensor]]:
    """The system at the size that suits the device, and three frames."""
    settings = config.load_config(
        config.FOLDER / ("full.yaml" if device == "cuda" else "small.yaml")
    )
    torch.manual_seed(0)
    batch, side = (10, 256) if device == "cuda" else (2, 64)
    frames = tuple(torch.rand(batch, 3, side, side, device=device) * 2 - 1 for _ in range(3))
    return model.VQFlowNet(settings.model).to(device), (frames[0], frames[1], frames[2])


@claim("Each forward() call runs the encoder 3 times")
def encoder_three_times(device: str) -> Answer:
    net, (image, before, after) = network(device)
    calls: list[int] = []
    net.encoder.register_forward_hook(lambda *_: calls.append(1))
    warnings.simplefilter("ignore")
    batch = {
        name: frame.permute(0, 2, 3, 1)
        for name, frame in ((IMAGE, image), (PREVIOUS, before), (NEXT, after))
    }
    net.training_step(batch, 0, 0)
    once = len(calls)
    net.training_step(batch, 1, 0)
    return Answer(
        "counted the encoder's calls in one training step",
        f"{once} in one forward pass, {len(calls)} in a step: each of two optimizers has its own",
        "true" if once == 3 else "false",
    )


@claim("The encoder is the most expensive part")
def encoder_is_dearest(device: str) -> Answer:
    net, frames = network(device)
    with torch.no_grad():
        _, _, features = net.encode(frames[0])
        z = net.post_quant_conv(net.encode(frames[0])[0])
        warnings.simplefilter("ignore")
        found = side_by_side(
            lambda: net.decoder(z, frames[1:], (features, features)),
            lambda: [net.encoder(frame) for frame in frames],
            device,
        )
    assert found.ratio
    return Answer(
        "the decoder against three calls of the encoder, without gradients",
        f"three encoder calls take {found.ratio:.2f} times what the decoder takes",
        "true" if found.ratio > 1 else "false",
        "at 256x256: 72.8 GFLOP in three encoder calls, 118.5 in the decoder",
    )


@claim("Triple encoding is by design and cannot be easily fixed")
def triple_encoding_by_design(device: str) -> Answer:
    net, frames = network(device)
    warnings.simplefilter("ignore")

    def run() -> Tensor:
        out: Tensor = net(*frames)[0]
        net.zero_grad()
        out.square().mean().backward()
        return out.detach()

    def as_found() -> Tensor:
        net.__class__ = model.VQFlowNet
        return run()

    def one_call() -> Tensor:
        net.__class__ = Network
        return run()

    off = relative(one_call(), as_found())
    found = side_by_side(as_found, one_call, device, 6)
    return Answer(
        "one call for the three frames, of which the neighbours give features only (fast.py, edit one-encode)",
        f"forward and backward {faster(found)}; outputs {off:.1e} apart",
        "false" if off < 1e-3 else "partly",
        "rounding apart the numbers are the same" if off < 1e-3 else "",
    )


@claim("The fallback uses interpolate() calls, which are CPU operations")
def interpolate_on_cpu(device: str) -> Answer:
    where = "meta" if device == "cpu" else device
    mask = torch.ones(1, 1, 8, 8, device=where)
    out = F.interpolate(mask, size=(12, 12), mode="bilinear", align_corners=False)
    return Answer(
        f"asked interpolate for a result from a tensor on {where!r}",
        f"its result is on {out.device.type!r}",
        "false" if out.device.type == where else "true",
        "it runs where its input is",
    )


@claim("Fix 1: move the masks to the GPU before interpolating")
def move_masks_first(device: str) -> Answer:
    mask = torch.ones(1, 1, 8, 8, device=device)
    same = mask.to(mask.device) is mask
    return Answer(
        "called .to(device) on a tensor that is there already, as the masks are",
        f"it is {'the same tensor, nothing happens' if same else 'another tensor'}",
        "false" if same else "true",
        "gain 0",
    )


@claim("The fallback is 100-1000x slower than the CUDA kernel")
def fallback_is_slower(device: str) -> Answer:
    torch.manual_seed(0)
    batch, side = (10, 256) if device == "cuda" else (1, 64)
    taps = decoder.TAPS
    frame = torch.rand(batch, 3, side + 2 * decoder.EDGE, side + 2 * decoder.EDGE, device=device)
    kernels = [torch.rand(batch, taps, side, side, device=device) for _ in range(2)]
    offsets = [torch.randn(batch, taps**2, side, side, device=device) for _ in range(2)]
    mask = torch.rand(batch, taps**2, side, side, device=device)
    warp = dsepconv if device == "cuda" else dsepconv_twin
    with torch.no_grad():
        found = side_by_side(
            lambda: warp(frame, kernels[0], kernels[1], offsets[0], offsets[1], mask),
            lambda: decoder.fallback(frame, mask),
            device,
        )
    heads = [each.clone().requires_grad_() for each in (*kernels, *offsets)]
    mask.requires_grad_()
    decoder.fallback(frame, mask).sum().backward()
    learn = sum(each.grad is not None for each in heads)
    return Answer(
        "one warp: the fallback against "
        + ("our kernel" if device == "cuda" else "the same function in plain torch"),
        f"the fallback is {faster(found)}; {learn} of the {2 * len(heads)} heads get a gradient from it",
        "false" if found.ratio and found.ratio < 1 else "partly",
        "it is another function: a blend of two frames, in which nothing moves",
    )


@claim("num_workers: 8 is slow to start and can hang; use 4 or 0", on=("cpu",))
def fewer_workers(device: str) -> Answer:
    folder = data.build_triplets(data.SMALL, None)
    settings = config.load_config(config.FOLDER / "small.yaml").data
    seconds = {}
    for workers in (0, 2, 8):
        loader = torch.utils.data.DataLoader(
            data.Vimeo90kTriplet(folder, train=True, crop_size=settings.crop_size),
            batch_size=settings.batch_size,
            num_workers=workers,
            multiprocessing_context="spawn" if workers else None,
        )
        begun = time.perf_counter()
        next(iter(loader))
        seconds[workers] = time.perf_counter() - begun
    stays, _ = fast.make_loaders(folder, settings)
    epochs = []
    for _ in range(2):
        begun = time.perf_counter()
        next(iter(stays))
        epochs.append(time.perf_counter() - begun)
    told = ", ".join(f"{count}: {took:.2f} s" for count, took in seconds.items())
    return Answer(
        "spawned workers, as on Windows: time to the first batch of an epoch; two cores",
        f"{told}; with persistent workers {epochs[0]:.2f} s once, then {epochs[1]:.3f} s an epoch",
        "depends",
        "on persistent workers: they pay the start once; 0 decodes on the thread that trains. "
        "A hang was not seen; nothing was run on Windows",
    )


without_sm_120 = unmeasured(
    "without_sm_120",
    "PyTorch 2.7.1 + CUDA 11.8 runs the RTX 5070 (sm_120) in a mode of reduced performance",
    "no RTX 5070 here; `pitstop doctor` tells a build that lacks the architecture (PIT001)",
)


@claim(
    "5-10 iterations a minute with the fallback on the GPU, 20-50 with the kernel, 50-100 with a newer PyTorch"
)
def iterations_a_minute(device: str) -> Answer:
    net, frames = network(device)
    optimizers = slow.configure_optimizers(net, 1e-5)
    warnings.simplefilter("ignore")
    names = (IMAGE, PREVIOUS, NEXT)
    batch = {name: frame.permute(0, 2, 3, 1) for name, frame in zip(names, frames, strict=True)}

    def step() -> None:
        slow.train_step(net, optimizers, batch, 1)

    found = side_by_side(step, step, device, 6)
    assert found.before
    warp = (
        "the CuPy kernel or, if it is missing, the fallback" if device == "cuda" else "the fallback"
    )
    return Answer(
        f"training steps as found without the loader, {warp}",
        f"{60e3 / found.before:.0f} a minute at {'batch 10 of 256x256' if device == 'cuda' else 'batch 2 of 64x64'}",
        "depends",
        "on the GPU and the loader; none of the three was measured by the report",
    )
