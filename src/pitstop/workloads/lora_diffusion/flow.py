"""Latents as FLUX wants them: packed in 2x2 patches, with positions, mixed with noise."""

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import Tensor


def pack_latents(latents: Tensor) -> Tensor:
    """Fold 2x2 patches into channels: (B, C, H, W) to (B, H/2 * W/2, 4 C)."""
    batch, channels, height, width = latents.shape
    latents = latents.view(batch, channels, height // 2, 2, width // 2, 2)
    latents = latents.permute(0, 2, 4, 1, 3, 5)  # (B, H/2, W/2, C, 2, 2)
    return latents.reshape(batch, (height // 2) * (width // 2), channels * 4)


def unpack_latents(packed: Tensor, height: int, width: int) -> Tensor:
    """The way back: (B, H/2 * W/2, 4 C) to (B, C, H, W)."""
    batch, _, channels = packed.shape
    latents = packed.view(batch, height // 2, width // 2, channels // 4, 2, 2)
    latents = latents.permute(0, 3, 1, 4, 2, 5)  # (B, C, H/2, 2, W/2, 2)
    return latents.reshape(batch, channels // 4, height, width)


def latent_image_ids(height: int, width: int) -> Tensor:
    """Row and column of every patch, (H/2 * W/2, 3)."""
    ids = torch.zeros(height // 2, width // 2, 3)
    ids[..., 1] = ids[..., 1] + torch.arange(height // 2)[:, None]
    ids[..., 2] = ids[..., 2] + torch.arange(width // 2)[None, :]
    return ids.reshape(-1, 3)


def sigmas_of(
    scheduler: FlowMatchEulerDiscreteScheduler, timesteps: Tensor, like: Tensor
) -> Tensor:
    """The noise level of each timestep, shaped to broadcast over ``like``."""
    sigmas: Tensor = scheduler.sigmas.to(device=like.device, dtype=like.dtype)
    schedule = scheduler.timesteps.to(like.device)
    indices = [(schedule == t).nonzero().item() for t in timesteps]  # pit: sigma-lookup
    sigma = sigmas[indices].flatten()
    while sigma.ndim < like.ndim:
        sigma = sigma.unsqueeze(-1)
    return sigma
