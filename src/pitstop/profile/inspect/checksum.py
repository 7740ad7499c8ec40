"""Checksum: whether a module was given the same content before."""

import hashlib

import torch

from pitstop import internals

NUMPY = internals.tensor_to_numpy  # the script's own requests for it are listened to
WHOLE_BYTES = 4 * 2**20  # token ids, masks and the like are hashed to the last byte
SAMPLED = 16_384  # numbers looked at in a larger tensor; its sum covers the rest


def checksum(tensors: list[torch.Tensor]) -> str:
    """The same for equal tensors; different, with near certainty, for different ones."""
    digest = hashlib.blake2b(digest_size=8)
    for each in tensors:
        plain = each.detach()
        digest.update(f"{plain.dtype}{list(plain.shape)}".encode())
        if plain.numel() * plain.element_size() > WHOLE_BYTES:
            kind = torch.float64 if plain.is_floating_point() else None
            digest.update(_bytes(plain.sum(dtype=kind)))
            plain = thinned(plain)
        digest.update(_bytes(plain))
    return digest.hexdigest()


def thinned(tensor: torch.Tensor) -> torch.Tensor:
    """A view of numbers from all over the tensor, at most ``SAMPLED`` of them."""
    for dimension in sorted(range(tensor.dim()), key=lambda d: -tensor.shape[d]):
        excess = -(-tensor.numel() // SAMPLED)
        if excess <= 1:
            break
        step = min(excess, tensor.shape[dimension])
        tensor = tensor[(slice(None),) * dimension + (slice(None, None, step),)]
    return tensor


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.cpu().contiguous().reshape(-1)
    return bytes(NUMPY(flat.view(torch.uint8)))
