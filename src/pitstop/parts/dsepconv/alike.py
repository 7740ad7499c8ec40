"""Whether a function of somebody else's computes what ``dsepconv`` does: both are tried.

The trial has samples far beyond all borders and on whole pixels, where conventions differ. The
gradients of all fields are compared as well; that of the image is not, since the originals have
none.
"""

from collections.abc import Callable

import torch

from pitstop.parts.dsepconv.operator import dsepconv

HEIGHT, WIDTH, SAMPLES = 9, 7, 2  # of the trial
REACH = 4.0  # pixels that samples move by, usually
LIMIT = 1e-4  # of the largest value: sums round in another order; another convention is far off
PLANES = 4  # axes of each of the six tensors
Function = Callable[..., torch.Tensor]


def fits(given: tuple[object, ...]) -> bool:
    """Whether these are an image and five fields, by their shapes."""
    tensors = [each for each in given if isinstance(each, torch.Tensor) and each.dim() == PLANES]
    if len(given) != 6 or len(tensors) != 6:
        return False
    image, vertical, horizontal, *others = (tuple(each.shape) for each in tensors)
    samples, size, height, width = vertical
    return (
        image[0] == samples
        and image[2:] == (height + size - 1, width + size - 1)
        and horizontal == vertical
        and all(each == (samples, size * size, height, width) for each in others)
        and all(each.is_floating_point() for each in tensors)
    )


def computes_the_same(function: Function, channels: int, size: int, device: torch.device) -> bool:
    """Whether its results and gradients are those of ``dsepconv``."""
    try:
        with torch.inference_mode(False), torch.enable_grad():
            found, expected = (
                _answers(each, channels, size, device) for each in (function, dsepconv)
            )
    except Exception:  # noqa: BLE001 a stranger's code, given what it may not be made for
        return False
    return all(
        one.shape == other.shape and bool((one - other).abs().max() <= LIMIT * other.abs().max())
        for one, other in zip(found, expected, strict=True)
    )


def _answers(
    function: Function, channels: int, size: int, device: torch.device
) -> list[torch.Tensor]:
    image, *fields = _inputs(channels, size, device)
    result = function(image, *fields)
    weights = _random((SAMPLES, channels, HEIGHT, WIDTH), device)
    return [result.detach(), *torch.autograd.grad(result, fields, weights)]


def _inputs(channels: int, size: int, device: torch.device) -> list[torch.Tensor]:
    image = _random((SAMPLES, channels, HEIGHT + size - 1, WIDTH + size - 1), device)
    fields = [_random((SAMPLES, size, HEIGHT, WIDTH), device) for _ in range(2)]
    fields += [_random((SAMPLES, size * size, HEIGHT, WIDTH), device, each) for each in range(3)]
    for offset in fields[2:4]:
        offset.mul_(REACH)[:, ::3].round_()
    return [image, *(each.requires_grad_() for each in fields)]


def _random(shape: tuple[int, ...], device: torch.device, seed: int = 0) -> torch.Tensor:
    """Numbers that take none from the script's generators."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device)
