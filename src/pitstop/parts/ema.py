"""Moving averages of weights, all at once.

Why it is slow in plain PyTorch: the loop ``a.mul_(d).add_(w, alpha=1 - d)`` takes two kernels for
each tensor. A network has hundreds of tensors, most of them small, and each launch costs the host
some 5 µs: milliseconds in every step, in which a GPU does next to nothing.

What is fused: one ``torch._foreach_lerp_`` over all tensors, a few launches on a GPU. It reads each
average and each weight once and writes the average once, which is the floor. The loop reads and
writes averages twice. On a CPU it spares Python's part of the loop.

Numbers: ``a + (1 - d) * (w - a)`` instead of ``d * a + (1 - d) * w``: the same but for rounding. A
tensor that comes twice, as tied weights in a state dict do, is updated twice, as in the loop. A
value of another type or device than its average is brought to it first, with a kernel for each. A
decay that is a tensor on the GPU is never read by the host; it needs room for one more copy of the
weights. Nothing is recorded for a backward pass.

Not for integers, such as counts of steps: copy those.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

Pairs = Iterable[tuple[Tensor, Tensor]]


@torch.no_grad()
def ema_update(pairs: Pairs, decay: float | Tensor) -> None:
    """Make ``decay * average + (1 - decay) * value`` of each average, in place."""
    for averages, values in _rounds(pairs):
        if isinstance(decay, Tensor):
            ways = torch._foreach_sub(values, averages)
            torch._foreach_mul_(ways, 1 - decay)
            torch._foreach_add_(averages, ways)
        else:
            torch._foreach_lerp_(averages, values, 1 - decay)


@torch.no_grad()
def ema_update_twin(pairs: Pairs, decay: float | Tensor) -> None:
    """The same, one by one."""
    for average, value in pairs:
        average.data.mul_(decay).add_(value.to(average) * (1 - decay))


def _rounds(pairs: Pairs) -> Iterable[tuple[list[Tensor], list[Tensor]]]:
    """Lists in which no average comes twice."""
    rounds: list[tuple[list[Tensor], list[Tensor]]] = []
    times: dict[int, int] = {}
    for average, value in pairs:
        address = average.data_ptr()
        number = times.get(address, 0) if address else 0
        times[address] = number + 1
        if number == len(rounds):
            rounds.append(([], []))
        averages, values = rounds[number]
        averages.append(average.data)  # as most loops do: no graph hears of it
        values.append(value.to(average))
    return rounds
