"""GroupNorm of small groups: one launch where the large ones take three.

A tensor of some hundred kilobytes is normalised before the CPU has prepared three launches and the
memory between them. Here one program takes a whole group, as PyTorch's own kernel does, and applies
what follows the norm as well. Larger groups would leave most of the chip idle.
"""

from dataclasses import dataclass

import torch

from pitstop.parts import layout
from pitstop.parts.group_norm import kernels
from pitstop.parts.launch import Launch, index_of

Maybe = torch.Tensor | None
# Elements of a group. By arithmetic, not measured yet (benchmarks/launch_cost.py does): three
# passes at 40 bytes/ns of one multiprocessor take about as long as two more launches.
PLANES_LIMIT = 65536  # 128 KiB in half precision, 10 us
ROWS_LIMIT = 32768  # channels-last: a group's channels fill half of each sector that is read
BLOCK = 4096  # elements that a program holds at once
FEW = 4096  # elements for which a few warps are enough
WARPS = (4, 16)


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """The one launch of a signature."""

    launch: Launch
    kept: tuple[int, int, int] | None  # the shape of the statistics, where a backward pass follows

    def __call__(
        self, x: torch.Tensor, weight: Maybe, bias: Maybe, residual: Maybe, channel_bias: Maybe
    ) -> tuple[torch.Tensor, Maybe]:
        """The result, and the statistics where they are kept."""
        y, statistics = torch.empty_like(x), None
        if self.kept is not None:
            statistics = x.new_empty(self.kept, dtype=torch.float32)
        if residual is not None:
            residual = layout.laid_out_like(x, residual)
        self.launch(x, residual, weight, bias, channel_bias, statistics, y)
        return y, statistics


def whole(
    shape: tuple[int, ...],
    strides: layout.Strides,
    device: torch.device,
    groups: int,
    numbers: tuple[float, bool, bool, tuple[bool, ...], bool],
) -> Whole | None:
    """The launch for a dense tensor with small groups; None for any other.

    ``numbers``: epsilon, SiLU, an affine for each sample, what is given, statistics to be kept.
    """
    eps, silu, per_sample, given, keep = numbers
    samples, channels, length = layout.flat(shape)
    width, rows = channels // groups, strides[2] == 1 and strides[1] != 1
    total = width * length
    if total > (ROWS_LIMIT if rows else PLANES_LIMIT):
        return None
    block = min(layout.power_of_two(total), BLOCK)
    constants = (width, rows, silu, *given, keep, block, layout.power_of_two(width))
    launch = Launch(
        kernels.whole_group_kernel,
        (groups, samples, 1),
        WARPS[total > FEW],
        index_of(device),
        (length, channels if per_sample else 0, *strides, eps, *constants),
    )
    return Whole(launch, (2, samples, channels) if keep else None)
