"""The network's modules after the pit stop: the same weights, names and results, sooner."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from pitstop.parts.windows.attention import window_attention

from .attention import Block, WindowAttention
from .model import MEAN, SPREAD, SpikeVRT, Stage
from .warping import flow_warp


class FusedAttention(WindowAttention):
    """Scores, bias and mask never leave the chip."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None = None
    ) -> Tensor:
        """Attention over the tokens of each window: (B, N, C)."""
        if mask is not None:
            mask = mask[:, : q.shape[2], : q.shape[2]]
        out = window_attention(q, k, v, bias, mask, scale=self.scale)
        return out.transpose(1, 2).flatten(2)


class PlainBlock(Block):
    """Keeps its activations; ``selective_checkpoints`` says where there is no room for that."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """A clip (B, D, H, W, C) to the same shape."""
        x = x + self.attend(x, mask)
        return x + self.feed_forward(x)


class BatchedStage(Stage):
    """Aligns all neighbours of all frames in one call."""

    def forward(self, x: Tensor, backward_flow: Tensor, forward_flow: Tensor) -> Tensor:
        """A clip (B, D, H, W, C) with flows (B, D - 1, 2, H, W) at this stage's scale."""
        x = self.self_group(self.mutual_group(self.reshape(x)))

        def bring(source: Tensor, target: Tensor, flow: Tensor) -> Tensor:
            aligned: Tensor = self.align(source, flow_warp(source, flow), target, flow)
            return aligned

        later, earlier = neighbours(x.permute(0, 1, 4, 2, 3), backward_flow, forward_flow, bring)
        together = [x, later.permute(0, 1, 3, 4, 2), earlier.permute(0, 1, 3, 4, 2)]
        fused: Tensor = self.fuse(torch.cat(together, -1))
        return fused


class BatchedVRT(SpikeVRT):
    """Flows of both directions in one call, and warps of all frames in one."""

    def forward(self, clip: Tensor) -> Tensor:
        """Blurred RGB and voxels (B, D, 3 + bins, H, W) to sharp RGB (B, D, 3, H, W)."""
        blurred = clip[:, :, :3]
        backward, forward = self.flows(blurred)
        clip = (clip - MEAN) / SPREAD
        later, earlier = neighbours(
            clip, backward[0], forward[0], lambda x, _, flow: flow_warp(x, flow, "nearest4")
        )
        x = self.first(torch.cat([clip, later, earlier], 2).transpose(1, 2))  # (B, C, D, H, W)
        x = x.permute(0, 2, 3, 4, 1)
        x = x + self.narrow(self.norm(self.features(x, backward, forward)))
        residual: Tensor = self.last(x.permute(0, 4, 1, 2, 3)).transpose(1, 2)
        return blurred + residual

    def flows(self, blurred: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Flow to the next and to the previous frame, at four scales."""
        before, after = blurred[:, :-1].flatten(0, 1), blurred[:, 1:].flatten(0, 1)
        both = self.flow(torch.cat([before, after]), torch.cat([after, before]))
        shape = (2, blurred.shape[0], blurred.shape[1] - 1)
        found = [flow.unflatten(0, shape).unbind(0) for flow in both]
        return [backward for backward, _ in found], [forward for _, forward in found]


def neighbours(
    frames: Tensor,
    backward_flow: Tensor,
    forward_flow: Tensor,
    bring: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """For every frame of (B, D, C, H, W) the next and the previous one, brought to it in one call.

    ``bring`` takes sources, targets and flows, all (N, C, H, W). Zeros beyond the ends.
    """
    first, second = frames[:, :-1].flatten(0, 1), frames[:, 1:].flatten(0, 1)
    flows = torch.cat([backward_flow.flatten(0, 1), forward_flow.flatten(0, 1)])
    brought = bring(torch.cat([second, first]), torch.cat([first, second]), flows)
    shape = (2, frames.shape[0], frames.shape[1] - 1)
    later, earlier = brought.unflatten(0, shape).unbind(0)
    nothing = torch.zeros_like(later[:, :1])
    return torch.cat([later, nothing], 1), torch.cat([nothing, earlier], 1)


FASTER: dict[type, type] = {
    WindowAttention: FusedAttention,
    Block: PlainBlock,
    Stage: BatchedStage,
    SpikeVRT: BatchedVRT,
}


def faster(model: nn.Module) -> None:
    """Give each module its class from above; weights stay as they are."""
    for module in model.modules():
        module.__class__ = FASTER.get(type(module), type(module))
