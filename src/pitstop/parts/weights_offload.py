"""Keep weights on the CPU, and bring those that a call needs to the device for its duration."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from pitstop.parts.vae.codecs import Codec


class WeightsOffload:
    """Page-locked copies of all weights; inference does not change them, so none goes back."""

    def __init__(self, codec: Codec) -> None:
        self.home: dict[nn.Parameter, torch.Tensor] = {}
        for each in codec.module.parameters():
            host = each.data.cpu()
            self.home[each] = host.pin_memory() if torch.cuda.is_available() else host
            each.data = self.home[each]

    @contextmanager
    def on(self, modules: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
        """Weights of ``modules`` on ``device``; back home afterwards, whatever happens."""
        weights = [each for module in modules for each in module.parameters()]
        try:
            for each in weights:
                each.data = self.home[each].to(device, non_blocking=True)
            yield
        finally:
            for each in weights:
                each.data = self.home[each]
