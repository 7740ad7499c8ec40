"""The parts of a FLUX model in two sizes, and the folder that from_pretrained reads.

Nothing is downloaded: every part has seeded random weights. Two things make such a model worth
fine-tuning. The VAE's last encoder layer is calibrated, so that latents have the mean and spread
that its configuration promises; and the transformer's way out mirrors its way in, so that at the
start it is a rough copy of its input instead of noise.
"""

import math
from dataclasses import dataclass

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
)
from peft import LoraConfig
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

LATENT_CHANNELS = 16
LOG_VARIANCE = -5.0  # of a latent: noise of 3 % beside the spread of the means
T5_TOKENS = 512  # the longest prompt
VOCABULARY = 512  # 256 bytes, the special tokens, and the captions' commonest pairs
PAD, END, UNKNOWN, START = range(4)
SPECIAL_TOKENS = {
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "bos_token": "<s>",
}
CLIP_TOKENS = SPECIAL_TOKENS | {"pad_token": "</s>"}
LORA_TARGETS = [
    *("x_embedder", "context_embedder", "proj_out", "proj_mlp", "norm_out.linear", "norm.linear"),
    *("norm1.linear", "norm1_context.linear", "to_q", "to_k", "to_v", "to_out.0", "to_add_out"),
    *("add_q_proj", "add_k_proj", "add_v_proj", "ff.net.0.proj", "ff.net.2"),
    *("ff_context.net.0.proj", "ff_context.net.2"),
]


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Widths and depths of the four networks; the defaults are the full size."""

    heads: int = 10
    head_width: int = 128
    rope_axes: tuple[int, int, int] = (16, 56, 56)
    double_blocks: int = 4
    single_blocks: int = 8
    clip_width: int = 768
    clip_layers: int = 12
    clip_tokens: int = 77
    t5_width: int = 1024
    t5_layers: int = 14
    vae_channels: tuple[int, ...] = (128, 256, 512, 512)
    vae_layers: int = 2
    vae_groups: int = 32
    dtype: torch.dtype = torch.bfloat16


FULL = ModelSize()
SMALL = ModelSize(
    heads=6,
    head_width=32,
    rope_axes=(8, 12, 12),
    double_blocks=2,
    single_blocks=4,
    clip_width=64,
    clip_layers=2,
    clip_tokens=32,
    t5_width=128,
    t5_layers=4,
    vae_channels=(16, 32, 32, 32),
    vae_layers=1,
    vae_groups=8,
    dtype=torch.float32,
)


def transformer(size: ModelSize) -> FluxTransformer2DModel:
    """The flow-matching transformer, guidance-distilled as FLUX.1-dev."""
    return FluxTransformer2DModel(
        in_channels=4 * LATENT_CHANNELS,
        num_layers=size.double_blocks,
        num_single_layers=size.single_blocks,
        attention_head_dim=size.head_width,
        num_attention_heads=size.heads,
        joint_attention_dim=size.t5_width,
        pooled_projection_dim=size.clip_width,
        guidance_embeds=True,
        axes_dims_rope=size.rope_axes,
    )


def autoencoder(size: ModelSize) -> AutoencoderKL:
    """The image VAE: 8x in space, 16 channels, no quantisation layers."""
    levels = len(size.vae_channels)
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        block_out_channels=size.vae_channels,
        layers_per_block=size.vae_layers,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=size.vae_groups,
        scaling_factor=0.3611,
        shift_factor=0.1159,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def clip_encoder(size: ModelSize) -> CLIPTextModel:
    """The encoder whose pooled output steers the whole image."""
    config = CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=size.clip_width,
        intermediate_size=4 * size.clip_width,
        num_hidden_layers=size.clip_layers,
        num_attention_heads=size.clip_width // 64,
        max_position_embeddings=size.clip_tokens,
        pad_token_id=END,
        bos_token_id=START,
        eos_token_id=END,
    )
    return CLIPTextModel(config)


def t5_encoder(size: ModelSize) -> T5EncoderModel:
    """The encoder whose tokens the transformer attends to."""
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=size.t5_width,
        d_ff=5 * size.t5_width // 2,
        num_layers=size.t5_layers,
        num_heads=size.t5_width // 64,
        feed_forward_proj="gated-gelu",
        pad_token_id=PAD,
        eos_token_id=END,
    )
    return T5EncoderModel(config)


def tokenizer(captions: list[str], max_length: int, *, clip: bool) -> PreTrainedTokenizerFast:
    """Byte pairs learnt from the captions, with the special tokens of CLIP or of T5."""
    bytes_to_words = Tokenizer(models.BPE())
    bytes_to_words.pre_tokenizer = pre_tokenizers.ByteLevel()
    bytes_to_words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bytes_to_words.train_from_iterator(captions, trainer)
    bytes_to_words.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if clip else "$A </s>",
        special_tokens=[("<s>", START), ("</s>", END)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bytes_to_words,
        model_max_length=max_length,
        **(CLIP_TOKENS if clip else SPECIAL_TOKENS),
    )


def pipeline(size: ModelSize, captions: list[str], pictures: Tensor) -> FluxPipeline:
    """All parts together, ready for save_pretrained; ``pictures`` calibrate the VAE."""
    vae, flow = autoencoder(size), transformer(size)
    _calibrate(vae, pictures)
    _mirror(flow)
    whole: FluxPipeline = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=vae,
        text_encoder=clip_encoder(size),
        tokenizer=tokenizer(captions, size.clip_tokens, clip=True),
        text_encoder_2=t5_encoder(size),
        tokenizer_2=tokenizer(captions, T5_TOKENS, clip=False),
        transformer=flow,
    ).to(size.dtype)
    return whole


def lora_config(rank: int, *, untrained: bool = True) -> LoraConfig:
    """Adapters on every linear layer of the blocks and on the ways in and out."""
    return LoraConfig(
        r=rank, lora_alpha=rank, target_modules=LORA_TARGETS, init_lora_weights=untrained
    )


@torch.no_grad()
def _calibrate(vae: AutoencoderKL, pictures: Tensor) -> None:
    """Rescale the encoder's last layer to the promised mean and spread, with little noise."""
    last = vae.encoder.conv_out
    means = vae.encode(pictures).latent_dist.mean  # (B, C, H, W)
    factor = 1 / (means.std((0, 2, 3)) * vae.config.scaling_factor)
    centred = last.bias[:LATENT_CHANNELS] - means.mean((0, 2, 3))
    last.weight[:LATENT_CHANNELS] *= factor[:, None, None, None]
    last.bias[:LATENT_CHANNELS] = centred * factor + vae.config.shift_factor
    last.weight[LATENT_CHANNELS:] = 0
    last.bias[LATENT_CHANNELS:] = LOG_VARIANCE


@torch.no_grad()
def _mirror(flow: FluxTransformer2DModel) -> None:
    """Small random blocks between an orthogonal way in and its transpose as the way out."""
    for name, parameter in flow.named_parameters():
        if parameter.ndim == 2:
            parameter.normal_(std=0.02)
        elif name.endswith("bias"):
            parameter.zero_()
    width, channels = flow.x_embedder.weight.shape
    nn.init.orthogonal_(flow.x_embedder.weight, gain=math.sqrt(width / channels))
    flow.proj_out.weight.copy_(flow.x_embedder.weight.T * (0.3 * math.sqrt(channels / width)))
