"""Report 001: training spike-camera deblurring (VRT)."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import torch
from claim import Answer, claim, faster, gained, peak, share, side_by_side, unmeasured
from torch import Tensor, nn

from pitstop.core.units import binary_bytes, milliseconds
from pitstop.parts import ram_cache
from pitstop.workloads.spike_deblur import data, fast, settings, slow
from pitstop.workloads.spike_deblur.attention import Block
from pitstop.workloads.spike_deblur.faster import PlainBlock
from pitstop.workloads.spike_deblur.losses import charbonnier
from pitstop.workloads.spike_deblur.model import SpikeVRT

TITLE = "Spike-camera deblurring (VRT)"
HERE = Path(slow.__file__).parent


def network(device: str) -> tuple[SpikeVRT, tuple[Tensor, Tensor]]:
    """The network at the size that suits the device, and one micro-batch."""
    name = "gopro_spike.yaml" if device == "cuda" else "gopro_spike_small.yaml"
    shape = settings.load_settings(HERE / name)
    torch.manual_seed(0)
    frames, side = shape.data.clip_len, shape.data.crop_size
    clip = torch.rand(1, frames, 3 + shape.model.voxel_bins, side, side, device=device)
    sharp = torch.rand(1, frames, 3, side, side, device=device)
    model = shape.model
    if device == "cpu":  # narrower yet: these are a few dozen steps
        model = replace(model, embed_dims=(8,) * 11, flow_widths=(4,))
    return SpikeVRT(model).to(device), (clip, sharp)


def step_of(net: nn.Module, batch: tuple[Tensor, Tensor], amp: bool = False) -> Callable[[], None]:
    """Forward and backward, without the optimizer."""

    def run() -> None:
        net.zero_grad()
        with torch.autocast(batch[0].device.type, torch.float16, enabled=amp):
            out = net(batch[0])
        charbonnier(out.float(), batch[1], 1e-3).backward()

    return run


@claim("torch.compile crashes with gradient checkpointing and drop_path; disable it", on=("cpu",))
def compile_crashes(device: str) -> Answer:
    torch.manual_seed(0)
    block = Block(16, (2, 4, 4), (0, 0, 0), 2, mutual=True, drop=0.2)
    x, mask = torch.rand(1, 4, 8, 8, 16, requires_grad=True), torch.zeros(8, 32, 32)
    told = []
    for name, module in (("as found", block), ("checkpoints left out", plain(block))):
        torch._dynamo.reset()
        compiled = torch.compile(module, backend="aot_eager")
        try:
            compiled(x, mask).sum().backward()
            told.append(f"{name}: runs")
        except Exception as error:  # noqa: BLE001
            told.append(f"{name}: {type(error).__name__}")
    torch._dynamo.reset()
    crashed = told[0] != "as found: runs"
    return Answer(
        f"one block compiled with aot_eager, torch {torch.__version__}",
        "; ".join(told),
        "true" if crashed else "depends",
        "on the version of torch: 2.11 fails on the public VRT (docs/results.md), where `pitstop "
        "tune` compiles inside the checkpoints and it trains; disabling is not the only answer",
    )


def plain(block: Block) -> Block:
    """The same block without its checkpoints."""
    other = pickle.loads(pickle.dumps(block))  # noqa: S301  # our own
    other.__class__ = PlainBlock
    result: Block = other
    return result


@claim("Removing gradient checkpointing would cause OOM on most GPUs", on=("cuda",))
def without_checkpoints(device: str) -> Answer:
    net, batch = network(device)
    run = step_of(net, batch, amp=device == "cuda")
    blocks = [each for each in net.modules() if isinstance(each, Block)]

    def with_them() -> None:
        for each in blocks:
            each.__class__ = Block
        run()

    def without() -> None:
        for each in blocks:
            each.__class__ = PlainBlock
        run()

    found = side_by_side(with_them, without, device, 6)
    least, most = peak(with_them), peak(without)
    return Answer(
        "forward and backward at 6x192x192 with AMP, blocks checkpointed and not",
        f"{faster(found)}; {binary_bytes(least)} with them, {binary_bytes(most)} without",
        "depends",
        "on the card; checkpointing all blocks or none are not the only choices "
        "(part `selective_checkpoints`)",
    )


@claim("A wrong split name or a missing folder leaves the cache with 0 items", on=("cpu",))
def empty_cache_items(device: str) -> Answer:
    root = data.prepare(small=True, root=None)
    wrong = data.SpikeDeblurDataset(root, "training", 4, 5, 32, ram_cache_gb=1)
    right = data.SpikeDeblurDataset(root, "train", 4, 5, 32, ram_cache_gb=1)
    try:
        fast.CachedClips(fast.Recordings(root, "training", 4, 5, 32), 32)
        ends = "runs on"
    except SystemExit:
        ends = "ends with one line"
    return Answer(
        "the dataset with the split 'training', which is not there",
        f"{len(wrong)} samples and {len(wrong._cache)} cached items, and the program goes on; "
        f"with 'train' {len(right)} and {len(right._cache)}; fast.py {ends}",
        "true",
        "a printed warning hides it: a program that has no data should end",
    )


@claim("channels_last only works with 4-D tensors", on=("cpu",))
def only_four_dimensions(device: str) -> Answer:
    clip = torch.rand(1, 2, 3, 4, 4)
    try:
        clip.to(memory_format=torch.channels_last)
        refused = "accepted"
    except RuntimeError as error:
        refused = f"refused ({error})"
    other = clip.to(memory_format=torch.channels_last_3d)
    same = other.is_contiguous(memory_format=torch.channels_last_3d)
    return Answer(
        "a tensor of 5 dimensions in both formats",
        f"channels_last: {refused}; channels_last_3d: {'accepted' if same else 'refused'}",
        "partly",
        "tensors of 5 dimensions have a format of their own",
    )


@claim("Applying channels_last to the Conv2d layers is a working optimization")
def channels_last_layers(device: str) -> Answer:
    net, batch = network(device)
    run = step_of(net, batch, amp=device == "cuda")
    layers = [each for each in net.modules() if isinstance(each, nn.Conv2d)]

    def laid(layout: torch.memory_format) -> Callable[[], None]:
        def each_time() -> None:
            for layer in layers:
                layer.to(memory_format=layout)  # type: ignore[call-overload]
            run()

        return each_time

    found = side_by_side(laid(torch.contiguous_format), laid(torch.channels_last), device, 6)
    return Answer(
        f"forward and backward with the weights of {len(layers)} Conv2d in either layout",
        faster(found),
        gained(found, 1.0),
        "most of the network is linear layers",
    )


@claim("Memory is parameters plus twice that plus 10 GB, a 'dynamic calculation'", on=("cuda",))
def memory_guess(device: str) -> Answer:
    net, batch = network(device)
    weights = sum(each.numel() * each.element_size() for each in net.parameters())
    guess = 3 * weights + 10 * 2**30
    optimizer = torch.optim.Adam(net.parameters())

    def run() -> None:
        step_of(net, batch, amp=True)()
        optimizer.step()

    used = peak(run) + weights
    return Answer(
        "one training step at 6x192x192 with AMP",
        f"estimated {binary_bytes(guess)}, used {binary_bytes(used)}",
        "true" if abs(guess / used - 1) < 0.1 else "false",
        "the 10 GB are a constant, and Adam's two moments are left out",
    )


@claim("Data 2-5 s, forward 1-2 s, backward 2-3 s, so a batch takes the sum of 5-10 s", on=("cpu",))
def times_add_up(device: str) -> Answer:
    root = data.prepare(small=True, root=None)
    clips = data.SpikeDeblurDataset(root, "train", 4, 5, 32)
    net, batch = network(device)
    load = side_by_side(lambda: clips[0], lambda: clips[0], device, 6).before
    step = side_by_side(step_of(net, batch), step_of(net, batch), device, 6).before
    assert load
    assert step
    return Answer(
        "small size: reading one clip, and one forward and backward",
        f"{milliseconds(load)} and {milliseconds(step)}; with workers that read ahead the smaller "
        "of both is hidden",
        "depends",
        "on the loader: only one that works while nothing else does makes it a sum",
    )


@claim(
    "Fewer workers are needed with a RAM cache, since every worker needs RAM for it", on=("cpu",)
)
def cache_of_each_worker(device: str) -> Answer:
    root = data.prepare(small=True, root=None)
    as_found = data.SpikeDeblurDataset(root, "train", 4, 5, 32, ram_cache_gb=1)
    held = sum(each.nbytes for each in as_found._cache.values())
    sent = len(pickle.dumps(as_found))
    frames = ram_cache(fast.Frames(fast.Recordings(root, "train", 4, 5, 32)), views=True)
    shared = len(ForkingPickler.dumps(frames))
    return Answer(
        f"bytes sent to each spawned worker, with a cache of {binary_bytes(held)}",
        f"{binary_bytes(sent)} as found; {binary_bytes(shared)} from one block that all share "
        "(part `ram_cache`)",
        "partly",
        "true of the cache as found, no property of caches",
    )


@claim("Gradient accumulation (12 steps) is a working optimization")
def accumulation(device: str) -> Answer:
    net, batch = network(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-5)
    run = step_of(net, batch, amp=device == "cuda")

    def steps(accumulated: int) -> Callable[[], None]:
        def each_time() -> None:
            for number in range(4):
                run()
                if (number + 1) % accumulated == 0:
                    optimizer.step()

        return each_time

    found = side_by_side(steps(1), steps(4), device, 6)
    return Answer(
        "four micro-batches, the optimizer after each of them or after the fourth",
        faster(found),
        "false" if found.verdict != "better" else "partly",
        "it gives a larger batch in less memory; what is saved is the optimizer",
    )


@claim("Mixed precision (AMP) is a working optimization", on=("cuda",))
def mixed_precision(device: str) -> Answer:
    net, batch = network(device)
    found = side_by_side(step_of(net, batch), step_of(net, batch, amp=True), device, 6)
    return Answer(
        "forward and backward in fp32 and with fp16 AMP", faster(found), gained(found, 1.1)
    )


@claim("Check torch.isnan(loss) in every step, and name the parameter that is NaN")
def nan_check(device: str) -> Answer:
    net, batch = network(device)
    layer = next(each for each in net.modules() if isinstance(each, nn.Linear))
    with torch.no_grad():
        kept = layer.weight.clone()
        layer.weight *= 1e30  # finite, and too large for what comes after
    out = net(batch[0])
    loss = charbonnier(out, batch[1], 1e-3)
    named = sum(bool((~each.isfinite()).any()) for each in net.parameters())
    bad = bool(~loss.isfinite())
    with torch.no_grad():
        layer.weight.copy_(kept)
    return Answer(
        "one layer made to overflow; then the report's check of all parameters",
        f"the loss is {'not finite' if bad else 'finite'}, and the check names {named} parameters",
        "false" if bad and not named else "partly",
        "NaN is born in activations; `pitstop run --guard` names the operation and the line",
    )


@claim("Clamp predictions to 0..1 before the loss against NaN", on=("cpu",))
def clamp_against_nan(device: str) -> Answer:
    net, (clip, sharp) = network(device)
    out = net(clip).detach() + 0.2 * torch.randn_like(sharp)
    out.requires_grad_()
    charbonnier(out.clamp(0, 1), sharp, 1e-3).backward()
    assert out.grad is not None
    dead = int((out.grad == 0).sum())
    nan = torch.full((1,), float("nan")).clamp(0, 1)
    return Answer(
        "a NaN clamped, and the gradients of a prediction with noise of 0.2, clamped",
        f"NaN stays {float(nan)}; {share(dead, out.numel())} of the pixels have no gradient",
        "false" if nan.isnan().all() and dead else "partly",
        "where the prediction is most wrong nothing is learned any more",
    )


@claim("Clip gradients to a norm of 1.0 against NaN", on=("cpu",))
def clip_against_nan(device: str) -> Answer:
    weights = [nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))]
    weights[0].grad = torch.tensor([1.0, float("inf"), 1.0, 1.0])
    weights[1].grad = torch.ones(4)
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    lost = sum(int((each.grad != each.grad).sum()) for each in weights if each.grad is not None)
    zero = sum(int((each.grad == 0).sum()) for each in weights if each.grad is not None)
    return Answer(
        "two weights of four numbers, one gradient infinite, clipped",
        f"{lost} of 8 gradients are NaN afterwards and {zero} are 0",
        "partly",
        "it holds large steps back; an infinity becomes a NaN by it",
    )


@claim("Precomputed voxels load faster", on=("cpu",))
def precomputed_voxels(device: str) -> Answer:
    root = data.prepare(small=False, root=None) if device == "cuda" else data.prepare(True, None)
    stored = data.SpikeDeblurDataset(root, "train", 4, 5, 32)
    counted = data.SpikeDeblurDataset(root, "train", 4, 5, 32, use_precomputed_voxels=False)
    clip, name = stored._samples[0][0]
    same = np.array_equal(stored._read_voxel(clip, name), counted._read_voxel(clip, name))
    found = side_by_side(
        lambda: counted._read_voxel(clip, name), lambda: stored._read_voxel(clip, name), device
    )
    return Answer(
        "one voxel counted from its spikes, and read from its file; small pictures",
        f"{faster(found)}; {'the same' if same else 'other'} numbers",
        gained(found, 1.0),
        "one that is missing must be counted, not be zeros as found",
    )


compile_gain = unmeasured(
    "compile_gain",
    "torch.compile typically provides a 10-30% speedup (for VRT)",
    "by blocks the full network did not end compiling within 430 s on the H200 (docs/results.md)",
)
