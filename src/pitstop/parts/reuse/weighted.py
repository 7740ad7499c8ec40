"""Weighted: a loss term is computed only while its weight is not zero.

Why plain PyTorch is slow here: ``loss + 0.0 * adversarial(fake)`` runs the discriminator forward
and backward for a gradient of zeros. Trainings do this for thousands of steps, until a schedule
turns the term on.

The sum is the same to the last bit, and so are gradients where another term gives one. What only
this term reaches gets no gradient instead of zeros, so an optimizer leaves it alone: no weight
decay, and Adam's count of steps begins when the term does. The floor is nothing at all. The twin is
``weight * term()``.
"""

from collections.abc import Callable

import torch

from pitstop.core.errors import PitstopError

Weight = float | torch.Tensor


def weighted(weight: Weight, term: Callable[[], torch.Tensor]) -> torch.Tensor | float:
    """``weight * term()``, or 0.0 without calling ``term`` where the weight is zero.

    A weight that is a tensor on a GPU would have to be waited for: it is refused.

    loss = reconstruction + weighted(factor, lambda: adversarial(fake))
    """
    if isinstance(weight, torch.Tensor) and weight.requires_grad:
        return weight * term()
    if isinstance(weight, torch.Tensor) and weight.device.type != "cpu":
        raise PitstopError(
            f"the weight is a tensor on {weight.device}, which Python would wait for: pass a number"
        )
    return weight * term() if weight != 0 else 0.0
