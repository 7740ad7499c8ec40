"""Report 003: training and serving LoRAs for FLUX (director-diffusion)."""

import gc
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from claim import Answer, claim, faster, gained, side_by_side
from torch import Tensor
from torch.utils.data import DataLoader

from pitstop.core.units import binary_bytes, milliseconds, precise_percent
from pitstop.workloads.lora_diffusion import config, data, fast, serve, slow

TITLE = "LoRA training and serving (director-diffusion)"


@cache
def trainer() -> slow.FluxTrainer:
    """The trainer as found, at small size on the CPU."""
    settings = replace(config.SMALL, num_workers=0)
    out = Path(tempfile.mkdtemp(prefix="pitstop-claims-"))
    return slow.FluxTrainer(settings, data.prepare(small=True), out, "cpu")


@cache
def batch() -> dict[str, Any]:
    """One training batch of cached latents."""
    pictures = trainer().style_dataset("held-out")
    loaded: dict[str, Any] = next(iter(DataLoader(pictures, batch_size=4)))
    return loaded


def step() -> None:
    """Forward and backward of one batch."""
    trainer().compute_loss(batch()).backward()


@claim("VAE scaling is duplicated in two paths: 5-10% of the training step", on=("cpu",))
def vae_scaling(device: str) -> Answer:
    both, run = trainer(), batch()
    vae = both.vae.config

    def helper(latents: Tensor) -> Tensor:
        shifted: Tensor = (latents - vae.shift_factor) * vae.scaling_factor
        return shifted

    def extracted() -> Tensor:
        return helper(run["latents"].to(both.device, dtype=both.weight_dtype))

    found = side_by_side(lambda: both.model_input(run), extracted, device)
    whole = side_by_side(step, extracted, device, 6)
    same = torch.equal(both.model_input(run), extracted())
    assert whole.after
    assert whole.before
    return Answer(
        "the scaling as found and in a helper, and a forward and backward; small size",
        f"{faster(found)}, which is {precise_percent(whole.after / whole.before)} of a step; "
        f"{'the same to the last bit' if same else 'other numbers'}",
        "false" if whole.after < 0.01 * whole.before else "partly",
        "the two copies stand in branches of which one runs: a matter of style",
    )


@claim("Estimated overall improvement with this fix: 5-15% of training time", on=("cpu",))
def overall_improvement(device: str) -> Answer:
    both, run = trainer(), batch()
    whole = side_by_side(step, lambda: both.model_input(run), device, 6)
    assert whole.ratio
    return Answer(
        "the whole scaling, of which the fix keeps all, in a forward and backward; small size",
        f"{precise_percent(whole.ratio)} of the step",
        "true" if whole.ratio > 0.05 else "false",
        "what takes so little cannot save so much",
    )


def living_bytes() -> int:
    """All tensors that are alive."""
    gc.collect()
    seen: dict[int, int] = {}
    for each in gc.get_objects():
        if type(each) in {Tensor, torch.nn.Parameter}:
            storage = each.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
    return sum(seen.values())


@contextmanager
def one_step_images(kind: slow.FluxTrainer, count: int = 1) -> Iterator[None]:
    """Validation of few images in one step: its loading is what counts here."""
    kept = kind.config
    kind.config = replace(kept, num_inference_steps=1, num_validation_images=count)
    try:
        yield
    finally:
        kind.config = kept


@claim(
    "Memory leak: the pipeline is created anew for each validation and memory accumulates",
    on=("cpu",),
)
def validation_leak(device: str) -> Answer:
    sizes = []
    with one_step_images(trainer()):
        for number in range(4):
            trainer().generate_images(number)
            sizes.append(living_bytes())
    grown = sizes[-1] - sizes[0]
    return Answer(
        "four validations; the bytes of all tensors alive after each",
        ", ".join(map(binary_bytes, sizes)) + f": {binary_bytes(grown)} more after the last",
        "false" if grown <= 0.01 * sizes[0] else "true",
        "no leak; but each time encoders and VAE are there twice for a while",
    )


@claim("Recreating the pipeline is unnecessary model loading", on=("cpu",))
def pipeline_again(device: str) -> Answer:
    both = trainer()
    folder = data.prepare(small=True)
    shared = fast.Trainer(both.config, folder, both.out, "cpu")
    shared.encode_captions([])
    seconds: dict[str, float] = {}
    for name, kind in (("as found", both), ("shared", shared)):
        with one_step_images(kind):
            times = []
            for number in range(4):
                begun = time.thread_time()
                kind.generate_images(number)
                times.append(time.thread_time() - begun)
        seconds[name] = min(times)
    gain = seconds["as found"] / seconds["shared"]
    return Answer(
        "one validation image in one step: pipeline from disk, and of the parts that are there; small size",
        f"{milliseconds(seconds['as found'] * 1e3)} and {milliseconds(seconds['shared'] * 1e3)}: {gain:.1f}x",
        "true" if gain > 1.05 else "false",
        "at full size it loads two text encoders of 10 GB again",
    )


def weights_of(*pipelines: Any) -> int:
    """Bytes of all weights of some pipelines, what is shared counted once."""
    seen = {
        each.untyped_storage().data_ptr(): each.untyped_storage().nbytes()
        for pipeline in pipelines
        for part in pipeline.components.values()
        if isinstance(part, torch.nn.Module)
        for each in part.parameters()
    }
    return sum(seen.values())


@claim("Two pipelines with the same configuration double the memory of the weights", on=("cpu",))
def two_pipelines(device: str) -> Answer:
    folder = data.prepare(small=True)
    server = serve.FluxServer(serve.SMALL, folder, folder / "loras", "cpu")
    one, two = (
        weights_of(server.base_pipeline),
        weights_of(server.base_pipeline, server.lora_pipeline),
    )
    transformer = sum(each.nbytes for each in server.base_pipeline.transformer.parameters())
    return Answer(
        "the distinct weights of the server as found, and of one of its pipelines; small size",
        f"{binary_bytes(two)} and {binary_bytes(one)}; the transformer alone has {binary_bytes(transformer)}",
        "true" if two > 1.9 * one else "false",
        "sharing the transformer too would let a LoRA change the base pictures: "
        "part `shared_pipelines` keeps adapters apart",
    )


@claim("Building lists with append is inefficient", on=("cpu",))
def list_appends(device: str) -> Answer:
    lines = (data.prepare(small=True) / "metadata.jsonl").read_text().splitlines()

    def appended() -> list[tuple[str, str]]:
        items = []
        for line in lines:
            item = json.loads(line)
            items.append((item["file_name"], item["text"]))
        return items

    def comprehended() -> list[tuple[str, str]]:
        return [(item["file_name"], item["text"]) for item in map(json.loads, lines)]

    found = side_by_side(appended, comprehended, device)
    whole = side_by_side(step, appended, device, 6)
    assert found.before
    assert found.after
    assert whole.before
    part = abs(found.before - found.after) / whole.before
    return Answer(
        f"the dataset's list of {len(lines)} items built both ways, once per run",
        f"{faster(found)}; once, {precise_percent(part)} of a single step",
        "false" if part < 0.01 else "partly",
    )


@claim("get_lora_options() is called several times when the interface is set up", on=("cpu",))
def lora_options_again(device: str) -> Answer:
    calls: list[int] = []
    kept = serve.Interface.get_lora_options

    def counted(self: serve.Interface) -> list[str]:
        calls.append(1)
        return []

    serve.Interface.get_lora_options = counted  # type: ignore[method-assign]
    serve.Interface("http://127.0.0.1:1")
    serve.Interface.get_lora_options = kept  # type: ignore[method-assign]
    return Answer(
        "counted the calls while the interface was set up",
        f"{len(calls)}, each a request",
        "true" if len(calls) > 1 else "false",
        "at start-up only: rule PIT612",
    )


@claim("Validation images one at a time underuse the GPU; generate them as a batch", on=("cpu",))
def validation_batch(device: str) -> Answer:
    both = trainer()
    pipeline = both.pipeline
    pipeline.set_progress_bar_config(disable=True)

    def images(count: int) -> None:
        pipeline(
            prompt=[slow.PROMPT] * count,
            height=both.config.resolution,
            width=both.config.resolution,
            num_inference_steps=2,
            max_sequence_length=both.config.max_sequence_length,
            generator=[torch.Generator().manual_seed(number) for number in range(count)],
        )

    def in_turn() -> None:
        for _ in range(4):
            images(1)

    found = side_by_side(in_turn, lambda: images(4), device, 6)
    return Answer(
        "four images in turn and as a batch; small size",
        faster(found),
        gained(found, 1.05),
        "where the GPU is full with one image, what is left is to encode the text once",
    )


@claim("Future: gradient accumulation, mixed precision, better prefetching", on=("cpu",))
def already_there(device: str) -> Answer:
    full = config.TrainConfig()
    return Answer(
        "read the configuration of the system",
        f"accumulation over {full.gradient_accumulation_steps}, {full.mixed_precision}, {full.num_workers} "
        f"persistent, pinned workers, cached latents: {full.cache_latents}",
        "false",
        "all three were there",
    )


@claim("Future: model sharding", on=("cpu",))
def sharding(device: str) -> Answer:
    trained = sum(each.numel() for each in trainer().transformer.parameters() if each.requires_grad)
    every = sum(each.numel() for each in trainer().transformer.parameters())
    return Answer(
        "counted the numbers that are trained; small size",
        f"{precise_percent(trained / every)} of the transformer: gradients and moments are as small",
        "false",
        "a LoRA that fits needs no sharding (17.6 GiB at full size, docs/results.md)",
    )
