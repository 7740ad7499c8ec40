"""Pipelines on one set of weights, SD- and FLUX-shaped, with random weights."""

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from peft import LoraConfig, get_peft_model_state_dict
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel

from pitstop.core.errors import PitstopError
from pitstop.parts import pictures_of_seeds, shared_pipelines
from pitstop.workloads.lora_diffusion import model

pytestmark = pytest.mark.filterwarnings("ignore")
CAPTIONS = ["a large red circle", "a small blue square"]
TINY = replace(
    model.SMALL, heads=2, double_blocks=1, single_blocks=1, t5_width=64, t5_layers=1, clip_layers=1
)
WISH = {"prompt": CAPTIONS[0], "num_inference_steps": 2, "output_type": "np"}


def sd():
    """Stable Diffusion's classes with a few thousand weights."""
    unet = UNet2DConditionModel(
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=4,
        norm_num_groups=4,
        sample_size=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 8),
        norm_num_groups=2,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            vocab_size=model.VOCABULARY,
            max_position_embeddings=16,
            eos_token_id=model.END,
        )
    )
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=model.tokenizer(CAPTIONS, 16, clip=True),
        unet=unet,
        scheduler=DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def flux():
    return model.pipeline(TINY, CAPTIONS, torch.rand(2, 3, 32, 32))


SHAPES = {"sd": (sd, "unet", 16), "flux": (flux, "transformer", 32)}


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


@pytest.fixture
def base(shape):
    torch.manual_seed(0)
    pipeline = SHAPES[shape][0]()
    pipeline.set_progress_bar_config(disable=True)
    for each in pipeline.components.values():
        if isinstance(each, nn.Module):
            each.eval()
    return pipeline


@pytest.fixture
def loras(shape, tmp_path):
    """Two folders with random adapters, for a pipeline of the shape."""
    build, network, _ = SHAPES[shape]
    folders = []
    for name in ("dusk", "noir"):
        pipeline = build()
        learner = getattr(pipeline, network)
        learner.add_adapter(
            LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False)
        )
        layers = {f"{network}_lora_layers": get_peft_model_state_dict(learner)}
        pipeline.save_lora_weights(tmp_path / name, **layers)
        folders.append(tmp_path / name)
    return folders


def picture(pipeline, seed=0, **named):
    side = 32 if hasattr(pipeline, "transformer") else 16
    generator = torch.Generator().manual_seed(seed)
    return pipeline(**WISH, height=side, width=side, generator=generator, **named).images[0]


def numbers(pipeline):
    return sum(each.numel() for each in weights(pipeline).values())


def weights(*pipelines):
    """All that lies in memory, once."""
    return {
        each.untyped_storage().data_ptr(): each
        for pipeline in pipelines
        for module in pipeline.components.values()
        if isinstance(module, nn.Module)
        for each in module.state_dict().values()
    }


def test_adapters_change_their_own_pictures_and_not_those_of_the_base(base, loras):
    before = picture(base)
    dusk, noir = shared_pipelines(base, *loras)
    others = [picture(dusk), picture(noir)]
    assert (picture(base) == before).all()
    assert not (others[0] == before).all()
    assert not (others[0] == others[1]).all()
    dusk.unload_lora_weights()
    assert (picture(dusk) == before).all()
    dusk.load_lora_weights(loras[1])
    assert (picture(dusk) == others[1]).all()


def test_the_pictures_are_those_of_a_pipeline_that_was_loaded_once_more(base, loras, shape):
    (dusk,) = shared_pipelines(base, loras[0])
    torch.manual_seed(0)
    twin = SHAPES[shape][0]()
    twin.set_progress_bar_config(disable=True)
    for each in twin.components.values():
        if isinstance(each, nn.Module):
            each.eval()
    twin.load_lora_weights(loras[0])
    assert (picture(dusk) == picture(twin)).all()


def test_only_the_adapters_take_memory(base, loras):
    dusk, noir = shared_pipelines(base, *loras)
    adapters = sum(
        value.numel()
        for pipeline in (dusk, noir)
        for module in pipeline.components.values()
        if isinstance(module, nn.Module)
        for name, value in module.state_dict().items()
        if "lora_" in name
    )
    together = sum(each.numel() for each in weights(base, dusk, noir).values())
    assert 0 < adapters < numbers(base) / 10
    assert together == numbers(base) + adapters


def test_fifty_switches_leave_memory_where_it_was(base, loras):
    (lora,) = shared_pipelines(base, loras[0])

    def switch(count):
        for number in range(count):
            lora.unload_lora_weights()
            lora.load_lora_weights(loras[number % 2])
        gc.collect()
        return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())

    before = picture(base)
    assert switch(2) == switch(50)
    assert (picture(base) == before).all()


def test_threads_do_not_see_the_adapter_of_another(base, loras):
    dusk, noir = shared_pipelines(base, *loras)
    alone = [picture(each) for each in (base, dusk, noir)]
    with ThreadPoolExecutor(3) as pool:
        wishes = [pool.submit(picture, each) for _ in range(4) for each in (base, dusk, noir)]
        found = [each.result() for each in wishes]
    assert all(np.array_equal(one, other) for one, other in zip(found, alone * 4, strict=True))


def test_a_pipeline_for_validation_follows_the_weights_that_train(base, shape):
    learner = getattr(base, SHAPES[shape][1]).train()
    (validation,) = shared_pipelines(base, None)
    before = picture(validation)
    with torch.no_grad():
        for each in learner.parameters():
            each.mul_(1.1)
    after = picture(validation)
    assert not (after == before).all()
    assert learner.training
    assert all(each.requires_grad for each in learner.parameters())
    assert not getattr(validation, SHAPES[shape][1]).training


def test_pictures_of_seeds_are_those_drawn_one_by_one(base):
    alone = [picture(base, seed) for seed in (3, 1, 4)]
    size = {"height": len(alone[0]), "width": len(alone[0])}
    named = {**WISH, **size}
    together = pictures_of_seeds(base, named.pop("prompt"), (3, 1, 4), at_once=2, **named)
    assert len(together) == 3
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_pictures_of_seeds_from_embeddings(base, shape):
    if shape == "sd":
        embeds, negative = base.encode_prompt(CAPTIONS[0], "cpu", 1, True)
        named = {"prompt_embeds": embeds, "negative_prompt_embeds": negative}
    else:
        embeds, pooled, _ = base.encode_prompt(CAPTIONS[0], None)
        named = {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled}
    alone = [picture(base, seed) for seed in (0, 1)]
    size = {"height": len(alone[0]), "width": len(alone[0])}
    options = {"num_inference_steps": 2, "output_type": "np", **size}
    together = pictures_of_seeds(base, None, (0, 1), **named, **options)
    np.testing.assert_allclose(np.stack(alone), np.stack(together), atol=1e-4)


def offloaded(pipeline):
    pipeline.vae._hf_hook = object()


def exchanged(pipeline):
    pipeline.vae.decoder.forward = lambda latent: latent


def training(pipeline):
    pipeline.vae.train()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (offloaded, "accelerate moves vae between devices"),
        (exchanged, "the forward of a Decoder in vae was exchanged"),
        (training, "vae is in training mode, and a LoRA would freeze it"),
    ],
)
@pytest.mark.parametrize("shape", ["sd"])
def test_what_cannot_be_shared_is_refused_in_one_line(base, spoil, words):
    spoil(base)
    with pytest.raises(PitstopError, match=words):
        shared_pipelines(base, "loras/dusk")


@pytest.mark.parametrize("shape", ["sd"])
def test_adapters_of_the_base_fused_loras_and_strangers_are_refused(base, loras):
    (dusk,) = shared_pipelines(base, loras[0])
    with pytest.raises(PitstopError, match="weights that other pipelines share"):
        dusk.fuse_lora()
    with pytest.raises(PitstopError, match="unet has an adapter already"):
        shared_pipelines(dusk, loras[1])
    with pytest.raises(PitstopError, match="a Linear is no pipeline of diffusers"):
        shared_pipelines(nn.Linear(1, 1), loras[0])
    with pytest.raises(PitstopError, match="one prompt at a time"):
        pictures_of_seeds(base, CAPTIONS, (0, 1))
    with pytest.raises(PitstopError, match="at_once=0"):
        pictures_of_seeds(base, CAPTIONS[0], (0, 1), at_once=0)
