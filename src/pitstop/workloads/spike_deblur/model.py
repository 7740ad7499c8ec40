"""A video restoration transformer in VRT's deblurring shape, fed with RGB and spike voxels.

Seven stages form a U over the scales 1, 1/2, 1/4 and 1/8; four more refine at full size. A stage
is mutual attention between frame pairs, self attention over the clip, and parallel warping: each
frame receives its two neighbours, aligned by flow and a deformable convolution.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .attention import BlockGroup, GatedMLP, Window
from .warping import FlowGuidedAlignment, FlowNet, flow_warp

SCALES = (1, 2, 4, 8, 4, 2, 1)  # of the seven stages with warping
RESHAPES = ("none", "down", "down", "down", "up", "up", "up")
MUTUAL_SHARE = 0.75  # of a stage's blocks; the others attend over the whole clip
OFFSET_REACH = 10.0  # pixels at full size
MEAN, SPREAD = 0.45, 0.2  # of the brightness of frames and voxels


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Sizes of the network, as the MODEL section of the YAML file gives them."""

    window: Window
    depths: tuple[int, ...]  # blocks in each of the 11 stages
    embed_dims: tuple[int, ...]
    heads: int
    single_frame_stages: tuple[int, ...]  # refinement stages that look at one frame at a time
    deformable_groups: int
    flow_widths: tuple[int, ...]
    flow_levels: int
    drop_path_rate: float
    voxel_bins: int


class Reshape(nn.Module):
    """Entry of a stage: normalise, and halve or double the resolution."""

    def __init__(self, kind: str, inputs: int, width: int) -> None:
        super().__init__()
        self.kind = kind
        features = {"none": inputs, "down": 4 * inputs, "up": inputs // 4}[kind]
        self.norm = nn.LayerNorm(features)
        self.linear = nn.Identity() if kind == "none" else nn.Linear(features, width)

    def forward(self, x: Tensor) -> Tensor:
        """A clip (B, D, H, W, C) to the stage's own size."""
        batch, frames, rows, columns, _ = x.shape
        if self.kind == "down":
            x = x.view(batch, frames, rows // 2, 2, columns // 2, 2, -1)
            x = x.permute(0, 1, 2, 4, 5, 3, 6).flatten(4)
        elif self.kind == "up":
            x = x.view(batch, frames, rows, columns, 2, 2, -1).permute(0, 1, 2, 5, 3, 4, 6)
            x = x.reshape(batch, frames, 2 * rows, 2 * columns, -1)
        out: Tensor = self.linear(self.norm(x))
        return out


class Stage(nn.Module):
    """Mutual attention, self attention, then warping of the neighbours."""

    def __init__(self, settings: ModelSettings, index: int, drops: tuple[float, ...]) -> None:
        super().__init__()
        inputs, width = settings.embed_dims[max(index - 1, 0)], settings.embed_dims[index]
        window, heads = settings.window, settings.heads
        mutual = int(len(drops) * MUTUAL_SHARE)
        self.reshape = Reshape(RESHAPES[index], inputs, width)
        pair = (2, window[1], window[2])
        self.mutual_group = BlockGroup(width, pair, heads, True, drops[:mutual])
        self.self_group = BlockGroup(width, window, heads, False, drops[mutual:])
        reach = OFFSET_REACH / SCALES[index]
        self.align = FlowGuidedAlignment(width, settings.deformable_groups, reach)
        self.fuse = GatedMLP(3 * width, 3 * width, width)

    def forward(self, x: Tensor, backward_flow: Tensor, forward_flow: Tensor) -> Tensor:
        """A clip (B, D, H, W, C) with flows (B, D - 1, 2, H, W) at this stage's scale."""
        x = self.self_group(self.mutual_group(self.reshape(x)))
        later = self.warp_neighbours(x, backward_flow, 1)
        earlier = self.warp_neighbours(x, forward_flow, -1)
        fused: Tensor = self.fuse(torch.cat([x, later, earlier], -1))
        return fused

    def warp_neighbours(self, x: Tensor, flows: Tensor, step: int) -> Tensor:
        """For every frame, the one ``step`` away brought to it; zeros beyond the ends."""
        frames = x.permute(0, 1, 4, 2, 3).unbind(1)
        aligned = []
        for target, current in enumerate(frames):
            source = target + step
            if not 0 <= source < len(frames):
                aligned.append(torch.zeros_like(current))
                continue
            flow = flows[:, min(source, target)]
            warped = flow_warp(frames[source], flow)
            brought = self.align(frames[source], warped, current, flow)  # pit: align-per-frame
            aligned.append(brought)
        return torch.stack(aligned, 1).permute(0, 1, 3, 4, 2)


class SpikeVRT(nn.Module):
    """Deblurs a clip of RGB frames with the help of its spike voxels."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        widths, depths = settings.embed_dims, settings.depths
        rates = torch.linspace(0, settings.drop_path_rate, sum(depths), device="cpu").tolist()
        ends = [sum(depths[: i + 1]) for i in range(len(depths))]
        drops = [tuple(rates[end - depth : end]) for end, depth in zip(ends, depths, strict=True)]
        channels = (3 + settings.voxel_bins) * 9  # a frame, and four corners of both neighbours
        self.first = nn.Conv3d(channels, widths[0], (1, 3, 3), padding=(0, 1, 1))
        self.flow = FlowNet(settings.flow_widths, settings.flow_levels)
        self.stages = nn.ModuleList(Stage(settings, i, drops[i]) for i in range(len(SCALES)))
        self.widen = nn.Sequential(nn.LayerNorm(widths[6]), nn.Linear(widths[6], widths[7]))
        self.refine = nn.Sequential(
            *(_refinement(settings, i, drops[i]) for i in range(len(SCALES), len(depths)))
        )
        self.norm = nn.LayerNorm(widths[-1])
        self.narrow = nn.Linear(widths[-1], widths[0])
        self.last = nn.Conv3d(widths[0], 3, (1, 3, 3), padding=(0, 1, 1))
        nn.init.zeros_(self.last.weight)  # training starts from the blurred frames
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def forward(self, clip: Tensor) -> Tensor:
        """Blurred RGB and voxels (B, D, 3 + bins, H, W) to sharp RGB (B, D, 3, H, W)."""
        blurred = clip[:, :, :3]
        backward, forward = self.flows(blurred)
        clip = (clip - MEAN) / SPREAD
        later = warp_inputs(clip, backward[0], 1)
        earlier = warp_inputs(clip, forward[0], -1)
        x = self.first(torch.cat([clip, later, earlier], 2).transpose(1, 2))  # (B, C, D, H, W)
        x = x.permute(0, 2, 3, 4, 1)
        x = x + self.narrow(self.norm(self.features(x, backward, forward)))
        residual: Tensor = self.last(x.permute(0, 4, 1, 2, 3)).transpose(1, 2)
        return blurred + residual

    def flows(self, blurred: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Flow to the next and to the previous frame, at four scales."""
        before, after = blurred[:, :-1].flatten(0, 1), blurred[:, 1:].flatten(0, 1)
        backward = self.flow(before, after)
        forward = self.flow(after, before)  # pit: flow-twice
        shape = (blurred.shape[0], blurred.shape[1] - 1)
        return [x.unflatten(0, shape) for x in backward], [x.unflatten(0, shape) for x in forward]

    def features(self, x: Tensor, backward: list[Tensor], forward: list[Tensor]) -> Tensor:
        """The U of seven stages, then the refinement at full size."""
        kept: list[Tensor] = []
        for i, stage in enumerate(self.stages):
            if i > 4:  # stages 6 and 7 take the shortcut from their scale
                x = x + kept[7 - i]
            scale = SCALES[i].bit_length() - 1
            x = stage(x, backward[scale], forward[scale])
            kept.append(x)
        refined: Tensor = self.refine(self.widen(x + kept[0]))
        return refined


def warp_inputs(clip: Tensor, flows: Tensor, step: int) -> Tensor:
    """The four pixels around where each pixel went, from the frame ``step`` away."""
    frames = clip.unbind(1)
    warped = []
    for target in range(len(frames)):
        source = target + step
        if 0 <= source < len(frames):
            flow = flows[:, min(source, target)]
            warped.append(flow_warp(frames[source], flow, "nearest4"))
        else:
            warped.append(torch.zeros_like(frames[target]).repeat(1, 4, 1, 1))
    return torch.stack(warped, 1)


def _refinement(settings: ModelSettings, index: int, drops: tuple[float, ...]) -> BlockGroup:
    single = index in settings.single_frame_stages
    window = (1, *settings.window[1:]) if single else settings.window
    return BlockGroup(settings.embed_dims[index], window, settings.heads, False, drops)
